# CMAKE_TOOLCHAIN_FILE for the Horovod of a checkout: without debug symbols and without what no library of it needs.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -DNDEBUG" CACHE STRING "")
# Horovod compiles Gloo twice: as its TensorFlow needs it (C++ 17), and for other frameworks. The second is compiled only
# if another target depends on it.
function(leave_out_gloo_of_others)
  if(TARGET gloo)
    set_target_properties(gloo PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()
cmake_language(DEFER CALL leave_out_gloo_of_others)
