# Third-party libraries other than LibTorch. All except MPI, CUDA and LibTorch are header-only or
# static, so programs built without MPI run on a machine that has only LibTorch, CUDA and libc.
# A project that adds this folder links them through axonn's libraries, from its own folder.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)
set(AXONN_REQUIRED REQUIRED)
include(AxonnNeeds)

add_library(axonn_spdlog INTERFACE)
target_include_directories(axonn_spdlog SYSTEM INTERFACE ${AXONN_SPDLOG_INCLUDE} ${AXONN_FMT_INCLUDE})
target_compile_definitions(axonn_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

add_library(axonn_toml INTERFACE)
target_include_directories(axonn_toml SYSTEM INTERFACE ${AXONN_TOMLPLUSPLUS_INCLUDE})
target_compile_definitions(axonn_toml INTERFACE TOML_HEADER_ONLY=1)

add_library(axonn_xxhash INTERFACE)
target_include_directories(axonn_xxhash SYSTEM INTERFACE ${AXONN_XXHASH_INCLUDE})

if(NOT AXONN_WITH_TORCH)
  return()
endif()

# Targets with our names, because the installed package creates them from the files, without
# searching for PNG, JPEG, zlib, zstd and MPI again.
set(AXONN_IMAGE_LIBRARIES ${PNG_LIBRARIES} ${JPEG_LIBRARIES})
add_library(axonn::images INTERFACE IMPORTED GLOBAL)
target_link_libraries(axonn::images INTERFACE PNG::PNG JPEG::JPEG)
set(AXONN_PACKING_LIBRARIES ${AXONN_ZSTD_LIBRARY} ${ZLIB_LIBRARIES})
add_library(axonn::packing INTERFACE IMPORTED GLOBAL)
target_include_directories(axonn::packing SYSTEM INTERFACE ${AXONN_ZSTD_INCLUDE})
target_link_libraries(axonn::packing INTERFACE ${AXONN_ZSTD_LIBRARY} ZLIB::ZLIB)

if(AXONN_WITH_MPI)
  set(AXONN_MPI_LIBRARIES ${MPI_C_LIBRARIES})
  add_library(axonn::mpi INTERFACE IMPORTED GLOBAL)
  target_link_libraries(axonn::mpi INTERFACE MPI::MPI_C)
endif()
