# CMAKE_TOOLCHAIN_FILE for a Horovod that only tests run: compiled with -O1, which takes less time.
include("${CMAKE_CURRENT_LIST_DIR}/horovod-build.cmake")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -DNDEBUG" CACHE STRING "" FORCE)
# Where ccache is installed, what an earlier build compiled is taken from its folder.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE} CACHE STRING "")
endif()
