# Language, warnings, sanitizers and compiler cache for every target of this project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# The static parts also go into the shared torch operator; and with the same flag for programs, instead of
# -fPIE, all can share one precompiled header.
add_compile_options(-fPIC)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Torch code spends its time in libtorch and in our kernels; -O3 only takes longer to compile.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

add_library(dp_settings INTERFACE)
# No -march and no -ffast-math: Highway dispatches at run time, exact constructions need IEEE.
target_compile_options(dp_settings INTERFACE -Wall -Wextra $<$<BOOL:${DP_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping or endless copies in ": " + std::string (its bug 105651).
  target_compile_options(dp_settings INTERFACE -Wno-restrict -Wno-stringop-overflow)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Its garbage collector walks the whole precompiled header each time; a fifth more memory lets it run seldom.
  target_compile_options(dp_settings INTERFACE --param=ggc-min-heapsize=1048576)
endif()
if(DP_SANITIZE)
  target_compile_options(dp_settings INTERFACE -fsanitize=${DP_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented, GCC sees uninitialised variables in <regex> (its bug 105562).
    target_compile_options(dp_settings INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(dp_settings INTERFACE -fsanitize=${DP_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # The precompiled header needs these two relaxations, or nothing that uses it is ever cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
