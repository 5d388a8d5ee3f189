# Headers, libraries, the licence, and packages for find_package(deltaproduct) and pkg-config. The public interface is
# deltaproduct::core and ::tokenizer with the headers of include/deltaproduct/; neither needs libtorch. When libtorch was used
# there are also the lab's ::ops, ::dist, ::nn, ::infer, ::tasks and ::train, whose headers are those of the source tree.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(DP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/deltaproduct)
set(DP_INSTALL_TARGETS dp_core dp_tokenizer dp_base dp_kernels dp_algebra dp_text dp_io dp_runtime dp_theory)
set(DP_INSTALL_TORCH_TARGETS)
set(DP_INSTALL_FOLDERS)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/deltaproduct DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(DP_TORCH)
  list(APPEND DP_INSTALL_TORCH_TARGETS dp_torch dp_ops dp_dist dp_nn dp_tasks dp_train)
  list(APPEND DP_INSTALL_FOLDERS core/base core/kernels core/algebra core/text core/io core/runtime core/theory lab/ops lab/dist lab/nn lab/tasks lab/train)
  file(RELATIVE_PATH DP_LIBRARIES_FROM_PROGRAM /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(dp-lab PROPERTIES INSTALL_RPATH
    "$ORIGIN/${DP_LIBRARIES_FROM_PROGRAM};${DP_OPENBLAS_DIR}")
  install(TARGETS dp dp-lab dp-train-sentencepiece RUNTIME)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/deltaproduct)
endif()

install(TARGETS ${DP_INSTALL_TARGETS} EXPORT deltaproduct)
if(DP_INSTALL_TORCH_TARGETS)
  install(TARGETS ${DP_INSTALL_TORCH_TARGETS} EXPORT deltaproduct-torch)
  install(EXPORT deltaproduct-torch NAMESPACE deltaproduct:: FILE deltaproduct-torch-targets.cmake
          DESTINATION ${DP_PACKAGE_DIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(folder IN LISTS DP_INSTALL_FOLDERS)
  get_filename_component(name ${folder} NAME)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${folder}/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/deltaproduct/${name}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*-inl.h" EXCLUDE PATTERN "test_*" EXCLUDE)
endforeach()
install(EXPORT deltaproduct NAMESPACE deltaproduct:: FILE deltaproduct-targets.cmake DESTINATION ${DP_PACKAGE_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/deltaproduct-config.cmake.in
  ${PROJECT_BINARY_DIR}/deltaproduct-config.cmake INSTALL_DESTINATION ${DP_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/deltaproduct-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/deltaproduct-config.cmake ${PROJECT_BINARY_DIR}/deltaproduct-config-version.cmake
        DESTINATION ${DP_PACKAGE_DIR})

# pkg-config is for the parts without libtorch: static libraries, so that what they use is named too.
file(RELATIVE_PATH DP_PREFIX_FROM_PKGCONFIG /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/deltaproduct.pc.in ${PROJECT_BINARY_DIR}/deltaproduct.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/deltaproduct.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
