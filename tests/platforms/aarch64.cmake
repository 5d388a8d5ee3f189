# Cross-compiles for aarch64 with Debian's packages of that architecture; tests run in qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
if(DP_CROSS_COMPILER STREQUAL "clang")
  set(CMAKE_CXX_COMPILER clang++)
  set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
else()
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DP_CROSS_COMPILER)
find_program(qemu NAMES qemu-aarch64 qemu-aarch64-static REQUIRED)
# "max" has every extension that qemu knows, SVE2 among them.
set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu} -cpu max)
