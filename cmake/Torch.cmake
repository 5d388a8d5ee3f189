# libtorch as the target dp_torch, and a precompiled header that every torch-using folder shares.
find_package(Torch REQUIRED)

add_library(dp_torch INTERFACE)
target_link_libraries(dp_torch INTERFACE ${TORCH_LIBRARIES})
# Debian's headers are in the system include path; their warnings are not ours to fix.
target_include_directories(dp_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
