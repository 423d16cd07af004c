# The LibTorch that axonn is built with: AXONN_LIBTORCH_FOLDER, AXONN_LIBTORCH_VERSION,
# AXONN_LIBTORCH_RPATH (the folders of its libraries, for installed programs), and the targets of
# AxonnTorchTarget.cmake.
include(AxonnTorchTarget)

if(NOT TARGET torch AND NOT AXONN_LIBTORCH)
  file(GLOB installed ${PROJECT_SOURCE_DIR}/.deps/torch-2.11.0/lib/python3*/site-packages/torch)
  if(AXONN_WITH_CUDA)  # the other one compiles with CUDA too, but lacks the libraries to run
    file(GLOB whole ${PROJECT_SOURCE_DIR}/.deps/torch-2.11.0-cuda/lib/python3*/site-packages/torch)
    list(PREPEND installed ${whole})
  endif()
endif()
if(installed)
  list(GET installed 0 AXONN_LIBTORCH_FOLDER)
  set(origin "scripts/setup")
else()
  axonn_choose_libtorch(AXONN_LIBTORCH_FOLDER origin)
endif()
axonn_libtorch_problem(problem "${AXONN_LIBTORCH_FOLDER}" "${origin}")
if(problem)
  message(FATAL_ERROR "${problem}; scripts/setup installs one for axonn (--cuda: one with CUDA)")
endif()
axonn_libtorch_version(AXONN_LIBTORCH_VERSION ${AXONN_LIBTORCH_FOLDER})
if(AXONN_LIBTORCH_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch in ${AXONN_LIBTORCH_FOLDER} (${origin}) is ${AXONN_LIBTORCH_VERSION}; axonn needs "
    "2.6 or later: set AXONN_LIBTORCH to the folder of such a one")
endif()
message(STATUS "LibTorch ${AXONN_LIBTORCH_VERSION} (${origin}): ${AXONN_LIBTORCH_FOLDER}")
axonn_add_libtorch(${AXONN_LIBTORCH_FOLDER})
file(GLOB AXONN_LIBTORCH_RPATH ${AXONN_LIBTORCH_FOLDER}/lib ${AXONN_LIBTORCH_FOLDER}/../torch.libs)
# A project that adds this folder links it from its own folder.
set_target_properties(axonn::libtorch PROPERTIES IMPORTED_GLOBAL TRUE)

if(NOT AXONN_WITH_CUDA)
  return()
endif()
if(NOT EXISTS ${AXONN_LIBTORCH_FOLDER}/lib/libtorch_cuda.so)
  message(FATAL_ERROR "LibTorch in ${AXONN_LIBTORCH_FOLDER} (${origin}) has no lib/libtorch_cuda.so: "
    "run scripts/setup --cuda, or set AXONN_LIBTORCH to one with CUDA")
endif()
find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 lacks it for nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
find_package(CUDAToolkit REQUIRED)
set(AXONN_CUDART libcudart.so.${CUDAToolkit_VERSION_MAJOR})
axonn_find_cuda_libraries(${AXONN_LIBTORCH_FOLDER} ${AXONN_CUDART} ${CUDAToolkit_LIBRARY_DIR})
find_path(AXONN_NCCL_INCLUDE nccl.h HINTS ${axonn_cuda_folders} PATH_SUFFIXES include REQUIRED)
mark_as_advanced(AXONN_NCCL_INCLUDE)
if(NOT AXONN_NCCL_LIBRARY OR NOT AXONN_CUDART_LIBRARY)
  message(FATAL_ERROR "libnccl.so.2 and ${AXONN_CUDART} are neither beside LibTorch in ${AXONN_LIBTORCH_FOLDER} nor in "
    "the system's folders: run scripts/setup --cuda, or set AXONN_NCCL_LIBRARY and AXONN_CUDART_LIBRARY")
endif()
cmake_path(GET AXONN_NCCL_LIBRARY PARENT_PATH AXONN_NCCL_DIR)
cmake_path(GET AXONN_CUDART_LIBRARY PARENT_PATH AXONN_CUDART_DIR)
list(APPEND AXONN_LIBTORCH_RPATH ${AXONN_NCCL_DIR} ${AXONN_CUDART_DIR})
axonn_add_libtorch_cuda(${AXONN_LIBTORCH_FOLDER} "${AXONN_NCCL_LIBRARY};${AXONN_CUDART_LIBRARY}")
set_target_properties(axonn::libtorch_cuda PROPERTIES IMPORTED_GLOBAL TRUE)
list(APPEND AXONN_CUDA_INCLUDES ${AXONN_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
list(REMOVE_DUPLICATES AXONN_CUDA_INCLUDES)

# axonn_cuda_sources(SOURCES...): those of this folder that include CUDA's headers. All others
# compile exactly as without CUDA, so the compiler cache has them after preset release.
function(axonn_cuda_sources)
  list(TRANSFORM AXONN_CUDA_INCLUDES PREPEND -isystem OUTPUT_VARIABLE options)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()
