# Headers, libraries, the licence, and packages for find_package(deltaproduct) and pkg-config. The public interface is
# deltaproduct::core and ::tokenizer with the headers of include/deltaproduct/; neither needs libtorch. When libtorch was used
# there are also the lab's ::ops, ::dist, ::nn, ::tasks and ::train, with the headers listed here and those that
# they include. The component `programs` is what running them takes and nothing to compile with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# dp_install_headers(FOLDER/NAME.h...): these of src/lab or src/core and all that they include, under deltaproduct/FOLDER.
function(dp_install_headers)
  set(left ${ARGN})
  set(done)
  while(left)
    list(POP_FRONT left header)
    if(header IN_LIST done)
      continue()
    endif()
    list(APPEND done ${header})
    find_file(path ${header} PATHS ${PROJECT_SOURCE_DIR}/src/lab ${PROJECT_SOURCE_DIR}/src/core
              NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH NO_CACHE REQUIRED)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${path} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/deltaproduct/${folder})
    file(STRINGS ${path} includes REGEX "^#include \"")
    list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND left ${includes})
    unset(path)
  endwhile()
endfunction()

set(DP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/deltaproduct)
# Shared libraries have the other folders inside; static ones are linked with them.
set(DP_INSTALL_TARGETS dp_core dp_tokenizer)
set(DP_INSTALL_NEEDS_PARTS OFF)
if(DP_TORCH OR NOT BUILD_SHARED_LIBS)
  set(DP_INSTALL_NEEDS_PARTS ON)
  list(APPEND DP_INSTALL_TARGETS dp_base dp_kernels dp_text dp_io dp_runtime)
endif()
set(DP_INSTALL_TORCH_TARGETS)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/deltaproduct DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(DP_TORCH)
  list(APPEND DP_INSTALL_TARGETS dp_algebra dp_theory)
  list(APPEND DP_INSTALL_TORCH_TARGETS dp_torch dp_ops dp_dist dp_nn dp_tasks dp_train)
  dp_install_headers(
    ops/delta_product.h ops/dplr.h ops/linear.h ops/linear_cross_entropy.h ops/rms_norm.h ops/selective_scan.h
    ops/short_conv.h ops/slstm.h ops/swiglu.h
    dist/launcher.h dist/world.h
    nn/delta_product_layer.h nn/language_model.h nn/pretrained.h nn/session.h
    tasks/modular_arithmetic.h tasks/parity.h tasks/text.h tasks/word_problem.h
    train/adamw.h train/evaluation.h train/run.h train/trainer.h)
  file(RELATIVE_PATH DP_LIBRARIES_FROM_PROGRAM /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(dp-lab PROPERTIES INSTALL_RPATH
    "$ORIGIN/${DP_LIBRARIES_FROM_PROGRAM};${DP_OPENBLAS_DIR}")
  install(TARGETS dp dp-lab dp-train-sentencepiece RUNTIME COMPONENT programs)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/deltaproduct)
endif()

install(TARGETS ${DP_INSTALL_TARGETS} EXPORT deltaproduct)
if(DP_INSTALL_TORCH_TARGETS)
  install(TARGETS ${DP_INSTALL_TORCH_TARGETS} EXPORT deltaproduct-torch LIBRARY COMPONENT programs)
  install(EXPORT deltaproduct-torch NAMESPACE deltaproduct:: FILE deltaproduct-torch-targets.cmake
          DESTINATION ${DP_PACKAGE_DIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT deltaproduct NAMESPACE deltaproduct:: FILE deltaproduct-targets.cmake DESTINATION ${DP_PACKAGE_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/deltaproduct-config.cmake.in
  ${PROJECT_BINARY_DIR}/deltaproduct-config.cmake INSTALL_DESTINATION ${DP_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/deltaproduct-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/deltaproduct-config.cmake ${PROJECT_BINARY_DIR}/deltaproduct-config-version.cmake
        DESTINATION ${DP_PACKAGE_DIR})

# pkg-config is for the parts without libtorch. What static libraries use is named too.
if(BUILD_SHARED_LIBS)
  set(DP_PRIVATE_LIBRARIES)
  set(DP_PRIVATE_PACKAGES)
else()
  set(DP_PRIVATE_LIBRARIES "-ldp_runtime -ldp_io -ldp_kernels -ldp_base -pthread")
  set(DP_PRIVATE_PACKAGES libhwy)
endif()
file(RELATIVE_PATH DP_PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/deltaproduct.pc.in ${PROJECT_BINARY_DIR}/deltaproduct.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/deltaproduct.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
