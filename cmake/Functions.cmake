# Several files of a target as one translation unit: even with a precompiled header each unit spends seconds on
# the same templates. DP_UNITY=OFF compiles each alone, which shows includes that are missing.
option(DP_UNITY "Compile several files at once: a clean build takes half as long" ON)
function(dp_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DP_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# Tests are compiled for speed of compilation; libraries never, and programs neither: of a template that both use the linker takes
# the program's instance. -Og sees uninitialised variables in torch's headers.
set(dp_quick_to_compile $<$<CONFIG:Release>:-Og> $<$<CONFIG:Release>:-Wno-maybe-uninitialized>)
# GCC 13 and later refuse a precompiled header made with -O2 under -Og unless these, which -O2 implies on x86, are on.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops DP_HAS_UNROLL_ONLY_SMALL_LOOPS)
if(DP_HAS_UNROLL_ONLY_SMALL_LOOPS)
  list(APPEND dp_quick_to_compile $<$<CONFIG:Release>:-munroll-only-small-loops> $<$<CONFIG:Release>:-mvzeroupper>)
endif()

# dp_library(NAME SOURCES ... PUBLIC ... PRIVATE ...): the static library dp_NAME of folder src/core/NAME or
# src/lab/NAME, known to others as deltaproduct::NAME. Includes are relative to the storey, src/core or src/lab, and
# only those of the libraries it links are found. TYPE SHARED makes it a shared one; TORCH_HEADERS has
# its files use the precompiled ones (cmake/Torch.cmake) and compiles them together; TOGETHER does the latter alone.
function(dp_library name)
  cmake_parse_arguments(ARG "TORCH_HEADERS;TOGETHER" "TYPE" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(NOT ARG_TYPE)
    set(ARG_TYPE STATIC)
  endif()
  get_filename_component(storey ${CMAKE_CURRENT_SOURCE_DIR} DIRECTORY)
  add_library(dp_${name} ${ARG_TYPE} ${ARG_SOURCES})
  add_library(deltaproduct::${name} ALIAS dp_${name})
  set_target_properties(dp_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(dp_${name} PUBLIC cxx_std_20)
  target_include_directories(dp_${name} PUBLIC
    $<BUILD_INTERFACE:${storey}>
    # <deltaproduct/ops/delta_product.h> for users, "ops/delta_product.h" among our own headers
    $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/deltaproduct>)
  target_link_libraries(dp_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:dp_settings>)
  if(ARG_TORCH_HEADERS)
    target_precompile_headers(dp_${name} REUSE_FROM dp_torch_headers)
  endif()
  if(ARG_TORCH_HEADERS OR ARG_TOGETHER)
    dp_compile_together(dp_${name})
  endif()
endfunction()

# dp_test(NAME LABEL quick|standard|slow SOURCES ... LINK ...): a GoogleTest executable run as one
# ctest entry. Labels: quick < 0.2 s, standard < 3 s, slow the rest.
function(dp_test name)
  cmake_parse_arguments(ARG "TORCH_HEADERS;TOGETHER" "LABEL" "SOURCES;LINK" ${ARGN})
  if(NOT DP_TESTS)
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main dp_settings)
  target_compile_definitions(${name} PRIVATE DP_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  if(ARG_TORCH_HEADERS)
    target_precompile_headers(${name} REUSE_FROM dp_torch_headers)
  endif()
  if(ARG_TORCH_HEADERS OR ARG_TOGETHER)
    dp_compile_together(${name})
  endif()
  target_compile_options(${name} PRIVATE ${dp_quick_to_compile})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}")
endfunction()

if(DP_TESTS)
  enable_testing()
endif()
