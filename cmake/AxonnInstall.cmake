# The part without LibTorch as a package: find_package(axonn CONFIG COMPONENTS perfmodel) gives axonn::perfmodel (with grid and core), and
# nothing else is needed to use it. What trains is not installed: it is built into its programs.
include(CMakePackageConfigHelpers)

set(AXONN_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/axonn)

foreach(module core grid terms network config perfmodel)
  set_target_properties(axonn_${module} PROPERTIES EXPORT_NAME ${module})
  target_compile_features(axonn_${module} INTERFACE cxx_std_20)
  install(TARGETS axonn_${module} EXPORT axonn-perfmodel COMPONENT perfmodel
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(TARGETS axonn-config COMPONENT perfmodel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT axonn-perfmodel FILE axonn-perfmodel.cmake NAMESPACE axonn:: DESTINATION ${AXONN_CONFIG_DIR} COMPONENT perfmodel)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/axonn-config.cmake.in ${PROJECT_BINARY_DIR}/axonn-config.cmake
  INSTALL_DESTINATION ${AXONN_CONFIG_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/axonn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/axonn-config.cmake ${PROJECT_BINARY_DIR}/axonn-config-version.cmake DESTINATION ${AXONN_CONFIG_DIR}
  COMPONENT perfmodel)
