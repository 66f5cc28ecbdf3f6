# CMAKE_TOOLCHAIN_FILE for a Horovod that only tests run: without -O3 and debug symbols it compiles in two thirds of the time.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -DNDEBUG" CACHE STRING "")
# Where ccache is installed, what an earlier build compiled is taken from its folder.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "")
endif()
