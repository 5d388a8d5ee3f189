# libtorch as the target dp_torch, and a precompiled header that every torch-using folder shares.
find_package(Torch REQUIRED)

add_library(dp_torch INTERFACE)
target_link_libraries(dp_torch INTERFACE ${TORCH_LIBRARIES})
# Debian's headers are in the system include path; their warnings are not ours to fix.
target_include_directories(dp_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# OpenBLAS on OpenMP threads, the ones that torch and our operators use. The variant with threads of its
# own, which Debian prefers where both are installed, leaves two sets of threads spinning on the same
# cores: a training step of the state-tracking model then takes 1.4 times as long (two cores). As an RPATH
# it also decides which library libtorch finds.
find_library(DP_OPENBLAS openblas REQUIRED
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
find_path(DP_OPENBLAS_INCLUDE cblas.h REQUIRED
  PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
get_filename_component(DP_OPENBLAS_DIR ${DP_OPENBLAS} DIRECTORY)
target_link_options(dp_torch INTERFACE
  $<BUILD_INTERFACE:-Wl,--disable-new-dtags,-rpath,${DP_OPENBLAS_DIR}>)
