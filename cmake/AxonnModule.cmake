# axonn_module(NAME SOURCES ... HEADERS ... PUBLIC ... PRIVATE ...): the library of one module of
# docs/architecture.md, with the alias axonn::NAME. HEADERS are public, relative to include/;
# SOURCES and private headers are relative to src/NAME. PRIVATE are header-only.
function(axonn_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  add_library(axonn_${name} STATIC ${arg_SOURCES})
  add_library(axonn::${name} ALIAS axonn_${name})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/)
  target_sources(axonn_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_include_directories(axonn_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  # An installed module links without header-only libraries.
  list(TRANSFORM arg_PRIVATE REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(axonn_${name} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:axonn_compiler> ${arg_PRIVATE})
  target_compile_features(axonn_${name} PUBLIC cxx_std_20)
  set_target_properties(axonn_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME ${name})
endfunction()

# axonn_program(NAME SOURCES ... LIBRARIES ...): an executable in bin/. When installed, it finds
# LibTorch, MPI and NCCL in their current places, because they are not installed with it.
function(axonn_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/apps)
  target_link_libraries(${name} PRIVATE axonn_compiler ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "${AXONN_LIBTORCH_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()

# axonn_compile_fast(TARGETS...): sources that compute nothing themselves, such as tests and command
# lines. They compile in three quarters of the time.
function(axonn_compile_fast)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>
      $<${AXONN_GCC_13_ON_X86}:-munroll-only-small-loops;-mvzeroupper>)
  endforeach()
endfunction()

# axonn_precompiled_torch(TARGETS...): they use the precompiled header of axonn_layers, which holds
# LibTorch's modules. Sources that include a layer then compile in 7 s instead of 17 s; a source
# without layers takes 3 s more. With the header, GCC 12 warns of overflows in LibTorch's inline
# code that it does not see without it.
function(axonn_precompiled_torch)
  axonn_precompiled_of(axonn_layers ${ARGN})
endfunction()

# axonn_precompiled_tensor(TARGETS...): as above with the header of axonn_comm, which holds
# LibTorch's tensor: 2 s instead of 4 s; a source without tensors takes half a second more.
function(axonn_precompiled_tensor)
  axonn_precompiled_of(axonn_comm ${ARGN})
endfunction()

function(axonn_precompiled_of owner)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${owner})
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC>  # as the header
        $<${AXONN_GCC_BEFORE_13}:-Wno-stringop-overflow;-Wno-array-bounds>)
    endif()
  endforeach()
endfunction()
