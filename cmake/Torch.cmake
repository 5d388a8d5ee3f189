# libtorch as the target dp_torch, and a precompiled header that every torch-using folder shares.
find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED)  # at::parallel_for is a header template over torch's OpenMP

add_library(dp_torch INTERFACE)
target_link_libraries(dp_torch INTERFACE ${TORCH_LIBRARIES})
# Debian's headers are in the system include path; their warnings are not ours to fix.
target_include_directories(dp_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# OpenBLAS on OpenMP threads, the ones that torch and our operators use. The variant with threads of its
# own, which Debian prefers where both are installed, leaves two sets of threads spinning on the same
# cores: a training step of the state-tracking model then takes 1.4 times as long (two cores). As an RPATH
# it also decides which library Debian's libtorch finds. A libtorch from elsewhere has a BLAS inside and needs none:
# -DDP_OPENBLAS= leaves it out.
find_library(DP_OPENBLAS openblas PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
find_path(DP_OPENBLAS_INCLUDE cblas.h PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
add_library(dp_blas INTERFACE)
if(DP_OPENBLAS AND DP_OPENBLAS_INCLUDE)
  get_filename_component(DP_OPENBLAS_DIR ${DP_OPENBLAS} DIRECTORY)
  target_link_options(dp_torch INTERFACE
    $<BUILD_INTERFACE:-Wl,--disable-new-dtags,-rpath,${DP_OPENBLAS_DIR}>)
  target_link_libraries(dp_blas INTERFACE ${DP_OPENBLAS})
  target_include_directories(dp_blas INTERFACE ${DP_OPENBLAS_INCLUDE})
  target_compile_definitions(dp_blas INTERFACE DP_HAS_OPENBLAS)
else()
  message(STATUS "No OpenBLAS for OpenMP threads: matrix products are those of libtorch alone")
endif()
target_compile_options(dp_torch INTERFACE $<BUILD_INTERFACE:${OpenMP_CXX_FLAGS}>)

# 10 s of headers once, not once per file; 2 s remain. Those that few files need are not among them: they
# would make all others slower. Every file still includes what it uses: without this target all builds
# too. Users must have the compile options of dp_torch and dp_settings; levels above -O0 may differ.
# ivalue.h is first because clang does not compile a vector of values that are only declared, as libtorch 1.13 has in ATen.h.
set(headers <ATen/core/ivalue.h> <ATen/ATen.h> <torch/csrc/autograd/autograd.h> <nlohmann/json.hpp>)
file(CONFIGURE OUTPUT torch_headers.cpp CONTENT "")
add_library(dp_torch_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/torch_headers.cpp)
target_link_libraries(dp_torch_headers PRIVATE dp_torch dp_settings nlohmann_json::nlohmann_json)
target_precompile_headers(dp_torch_headers PRIVATE ${headers})
