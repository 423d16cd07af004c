# The package: find_package(axonn CONFIG) provides axonn::axonn and every module as a component
# (docs/library.md). The planner needs neither LibTorch nor MPI, and can be installed by itself
# (--component perfmodel). The trainer libraries are a second part.
include(CMakePackageConfigHelpers)

set(AXONN_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/axonn)

# axonn_install_part(PART COMPONENT TARGETS...): installs libraries and headers, and their targets
# in axonn-PART.cmake.
function(axonn_install_part part component)
  install(TARGETS ${ARGN} EXPORT axonn-${part} COMPONENT ${component}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT axonn-${part} FILE axonn-${part}.cmake NAMESPACE axonn::
    DESTINATION ${AXONN_CONFIG_DIR} COMPONENT ${component})
endfunction()

function(axonn_install_programs component)
  if(AXONN_BUILD_PROGRAMS)
    install(TARGETS ${ARGN} COMPONENT ${component} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

list(TRANSFORM AXONN_PLANNER_MODULES PREPEND axonn_ OUTPUT_VARIABLE modules)
axonn_install_part(planner perfmodel ${modules})
axonn_install_programs(perfmodel ${AXONN_PLANNER_PROGRAMS})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/axonn-config.cmake.in ${PROJECT_BINARY_DIR}/axonn-config.cmake
  INSTALL_DESTINATION ${AXONN_CONFIG_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/axonn-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/axonn-config.cmake ${PROJECT_BINARY_DIR}/axonn-config-version.cmake
  DESTINATION ${AXONN_CONFIG_DIR} COMPONENT perfmodel)

if(NOT AXONN_WITH_TORCH)
  return()
endif()
list(TRANSFORM AXONN_TRAINER_MODULES PREPEND axonn_ OUTPUT_VARIABLE modules)
axonn_install_part(trainer trainer ${modules} axonn)
axonn_install_programs(trainer ${AXONN_TRAINER_PROGRAMS})

# The package contains the static archives, so that its users need no libpng, libjpeg, zlib and
# zstd. Shared libraries are linked at their current place. Images stand before zlib, which they
# use.
set(AXONN_CARRIED_DIR ${CMAKE_INSTALL_LIBDIR}/axonn)
set(AXONN_CARRIED_ARCHIVES)
set(AXONN_LINKED_LIBRARIES)
set(axonn_libraries ${AXONN_IMAGE_LIBRARIES} ${AXONN_PACKING_LIBRARIES})
list(REVERSE axonn_libraries)
list(REMOVE_DUPLICATES axonn_libraries)
list(REVERSE axonn_libraries)
foreach(library IN LISTS axonn_libraries)
  if(library MATCHES "\\${CMAKE_STATIC_LIBRARY_SUFFIX}$")
    file(REAL_PATH ${library} library)
    install(FILES ${library} DESTINATION ${AXONN_CARRIED_DIR} COMPONENT trainer)
    cmake_path(GET library FILENAME name)
    list(APPEND AXONN_CARRIED_ARCHIVES ${name})
  else()
    list(APPEND AXONN_LINKED_LIBRARIES ${library})
  endif()
endforeach()
# Must not be named axonn-trainer-*: axonn-trainer.cmake reads all such files, one per
# configuration.
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/AxonnTrainerNeeds.cmake.in ${PROJECT_BINARY_DIR}/AxonnTrainerNeeds.cmake
  INSTALL_DESTINATION ${AXONN_CONFIG_DIR} PATH_VARS AXONN_CARRIED_DIR
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
install(FILES ${PROJECT_BINARY_DIR}/AxonnTrainerNeeds.cmake ${PROJECT_SOURCE_DIR}/cmake/AxonnTorchTarget.cmake
  DESTINATION ${AXONN_CONFIG_DIR} COMPONENT trainer)
