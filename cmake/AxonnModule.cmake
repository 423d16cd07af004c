# axonn_module(NAME SOURCES ... HEADERS ... PUBLIC ... PRIVATE ...): the library of one module of docs/architecture.md, with the alias
# axonn::NAME. HEADERS are public, relative to include/; SOURCES and private headers are relative to src/NAME.
function(axonn_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  add_library(axonn_${name} STATIC ${arg_SOURCES})
  add_library(axonn::${name} ALIAS axonn_${name})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/)
  target_sources(axonn_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_include_directories(axonn_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # An installed module needs nothing of what it was built with.
  list(TRANSFORM arg_PRIVATE REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(axonn_${name} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:axonn_compiler> ${arg_PRIVATE})
  set_target_properties(axonn_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# axonn_program(NAME SOURCES ... LIBRARIES ...): an executable in bin/.
function(axonn_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE axonn_compiler ${arg_LIBRARIES})
endfunction()
