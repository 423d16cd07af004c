# axonn_libtorch: LibTorch without find_package(Torch), which enables CUDA, probes GPUs and links everything into everything.
# axonn_libtorch_cuda: the CUDA half, with NCCL and cuBLAS (AXONN_WITH_CUDA).
if(NOT AXONN_LIBTORCH)
  file(GLOB found ${PROJECT_SOURCE_DIR}/.deps/torch-2.11.0*/lib/python3*/site-packages/torch)
  if(NOT found)
    message(FATAL_ERROR "LibTorch is not installed: run scripts/setup, or pass -DAXONN_LIBTORCH=DIR (the folder with include/ and lib/)")
  endif()
  if(AXONN_WITH_CUDA)
    list(FILTER found INCLUDE REGEX "torch-2.11.0-cuda/")
    if(NOT found)
      message(FATAL_ERROR "LibTorch with CUDA is not installed: run scripts/setup --cuda, or pass -DAXONN_LIBTORCH=DIR")
    endif()
  else()
    list(FILTER found EXCLUDE REGEX "torch-2.11.0-cuda/")
  endif()
  list(GET found 0 AXONN_LIBTORCH)
endif()
if(NOT EXISTS ${AXONN_LIBTORCH}/include/ATen/core/Tensor.h)
  message(FATAL_ERROR "AXONN_LIBTORCH=${AXONN_LIBTORCH} holds no include/ATen/core/Tensor.h; give LibTorch's own folder")
endif()

file(STRINGS ${AXONN_LIBTORCH}/include/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
if(NOT version_lines)
  file(STRINGS ${AXONN_LIBTORCH}/include/torch/csrc/api/include/torch/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
endif()
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" AXONN_LIBTORCH_VERSION "${version_lines}")
if(AXONN_LIBTORCH_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch in ${AXONN_LIBTORCH} is ${AXONN_LIBTORCH_VERSION}; axonn needs 2.6 or later")
endif()
message(STATUS "LibTorch ${AXONN_LIBTORCH_VERSION}: ${AXONN_LIBTORCH}")

add_library(axonn_libtorch INTERFACE)
target_include_directories(axonn_libtorch SYSTEM INTERFACE
  ${AXONN_LIBTORCH}/include ${AXONN_LIBTORCH}/include/torch/csrc/api/include)
target_link_libraries(axonn_libtorch INTERFACE
  ${AXONN_LIBTORCH}/lib/libtorch_cpu.so ${AXONN_LIBTORCH}/lib/libc10.so Threads::Threads)
target_link_options(axonn_libtorch INTERFACE -Wl,--allow-shlib-undefined)
# The OpenMP that LibTorch itself loads: with another beside it, each would start threads of its own.
file(GLOB openmp ${AXONN_LIBTORCH}/lib/libgomp*.so* ${AXONN_LIBTORCH}/../torch.libs/libgomp*.so*)
if(openmp)
  list(GET openmp 0 openmp)
  target_link_libraries(axonn_libtorch INTERFACE ${openmp})
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  target_link_libraries(axonn_libtorch INTERFACE OpenMP::OpenMP_CXX)
endif()

if(NOT AXONN_WITH_CUDA)
  return()
endif()
# NCCL and the CUDA runtime are those that LibTorch itself loads: beside a Python package, inside an archive's lib/, or the system's.
find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it for nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
find_package(CUDAToolkit REQUIRED)
file(GLOB nccl_folders ${AXONN_LIBTORCH}/../nvidia/nccl)
file(GLOB cuda_folders ${AXONN_LIBTORCH}/../nvidia/cu[0-9]* ${AXONN_LIBTORCH}/../nvidia/cuda_runtime)
find_path(AXONN_NCCL_INCLUDE nccl.h HINTS ${nccl_folders} PATH_SUFFIXES include REQUIRED)
find_library(AXONN_NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${nccl_folders} PATH_SUFFIXES lib REQUIRED)
find_library(AXONN_CUDART_LIBRARY NAMES libcudart.so.${CUDAToolkit_VERSION_MAJOR} cudart HINTS ${cuda_folders} ${CUDAToolkit_LIBRARY_DIR}
  PATH_SUFFIXES lib REQUIRED)
mark_as_advanced(AXONN_NCCL_INCLUDE AXONN_NCCL_LIBRARY AXONN_CUDART_LIBRARY)

# No symbol of libtorch_cuda is named by our code, it registers itself: a linker told --as-needed would leave it out.
set(CMAKE_LINK_LIBRARY_USING_axonn_kept_SUPPORTED TRUE)
set(CMAKE_LINK_LIBRARY_USING_axonn_kept "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
add_library(axonn_libtorch_cuda INTERFACE)
target_include_directories(axonn_libtorch_cuda SYSTEM INTERFACE ${AXONN_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(axonn_libtorch_cuda INTERFACE
  axonn_libtorch $<LINK_LIBRARY:axonn_kept,${AXONN_LIBTORCH}/lib/libtorch_cuda.so> ${AXONN_LIBTORCH}/lib/libc10_cuda.so
  ${AXONN_NCCL_LIBRARY} ${AXONN_CUDART_LIBRARY})
