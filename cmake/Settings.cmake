# Language, warnings, sanitizers and compiler cache for every target of this project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the static parts also go into the shared torch operator

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(dp_settings INTERFACE)
# No -march and no -ffast-math: Highway dispatches at run time, exact constructions need IEEE.
target_compile_options(dp_settings INTERFACE -Wall -Wextra $<$<BOOL:${DP_WERROR}>:-Werror>)
if(DP_SANITIZE)
  target_compile_options(dp_settings INTERFACE -fsanitize=${DP_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(dp_settings INTERFACE -fsanitize=${DP_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # The precompiled header needs these two relaxations, or nothing that uses it is ever cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
