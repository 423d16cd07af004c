# axonn::libtorch and axonn::libtorch_cuda: the LibTorch of a project, without find_package(Torch),
# which enables CUDA, probes GPUs and adds unnecessary links. axonn's own build and its installed
# package create these targets with these functions.

# axonn_libtorch_version(OUT FOLDER): "2.11"; empty where FOLDER holds no LibTorch.
function(axonn_libtorch_version out folder)
  set(lines "")
  if(EXISTS "${folder}/include/ATen/core/Tensor.h")
    # New versions have the numbers in the first header, old ones in the second.
    foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
      if(NOT lines AND EXISTS "${folder}/include/${header}")
        file(STRINGS "${folder}/include/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
      endif()
    endforeach()
  endif()
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" version "${lines}")
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# axonn_folder_of_torch(OUT): the folder of the headers of the project's target torch; empty when
# unknown.
function(axonn_folder_of_torch out)
  set(${out} "" PARENT_SCOPE)
  get_target_property(includes torch INTERFACE_INCLUDE_DIRECTORIES)
  foreach(include IN LISTS includes)
    if(EXISTS "${include}/ATen/core/Tensor.h")
      cmake_path(ABSOLUTE_PATH include NORMALIZE)
      cmake_path(GET include PARENT_PATH folder)
      set(${out} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# axonn_folder_of_wheel(OUT): the package torch of the project's Python, or of the python3 in PATH;
# empty when there is none. It does not import the package, which takes seconds and fails if one of
# its CUDA libraries is missing.
function(axonn_folder_of_wheel out)
  set(python ${Python3_EXECUTABLE} ${Python_EXECUTABLE})
  if(python)
    list(GET python 0 python)
  else()
    find_program(python python3 NO_CACHE)
  endif()
  set(folder "")
  if(python)
    string(CONCAT script "import importlib.util as util; spec = util.find_spec('torch'); "
      "print(list(spec.submodule_search_locations)[0] if spec else '')")
    execute_process(COMMAND ${python} -c "${script}"
      WORKING_DIRECTORY ${CMAKE_CURRENT_FUNCTION_LIST_DIR}  # Python also searches there: it must have no folder torch
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# axonn_choose_libtorch(OUT_FOLDER OUT_ORIGIN [FOLDER ORIGIN]): the target torch of the project,
# else AXONN_LIBTORCH, else the wheel of its Python, else FOLDER if it exists. The origin is for
# messages.
function(axonn_choose_libtorch out_folder out_origin)
  if(TARGET torch)
    axonn_folder_of_torch(folder)
    set(origin "the project's target torch")
  elseif(AXONN_LIBTORCH)
    cmake_path(ABSOLUTE_PATH AXONN_LIBTORCH BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE folder)
    set(origin "AXONN_LIBTORCH")
  else()
    axonn_folder_of_wheel(folder)
    set(origin "the wheel of its Python")
    if(NOT folder AND EXISTS "${ARGV2}/include/ATen/core/Tensor.h")
      set(folder ${ARGV2})
      set(origin ${ARGV3})
    endif()
  endif()
  set(${out_folder} "${folder}" PARENT_SCOPE)
  set(${out_origin} "${origin}" PARENT_SCOPE)
endfunction()

# axonn_libtorch_problem(OUT FOLDER ORIGIN): one sentence with the reason why a folder cannot be
# used, and the cure; otherwise empty.
function(axonn_libtorch_problem out folder origin)
  set(problem "")
  axonn_libtorch_version(version "${folder}")
  if(TARGET torch AND NOT folder)
    string(CONCAT problem "the target torch names no folder with ATen/core/Tensor.h in INTERFACE_INCLUDE_DIRECTORIES: "
      "make it with find_package(Torch), or leave it out and set AXONN_LIBTORCH")
  elseif(NOT folder)
    string(CONCAT problem "there is no LibTorch: call find_package(Torch) before, set AXONN_LIBTORCH to the folder "
      "that holds its include/ and lib/, or install torch for python3")
  elseif(NOT version)
    string(CONCAT problem "${folder} (${origin}) holds no include/ATen/core/Tensor.h: set AXONN_LIBTORCH to LibTorch's "
      "own folder, which holds include/ and lib/")
  endif()
  set(${out} "${problem}" PARENT_SCOPE)
endfunction()

# axonn_add_libtorch(FOLDER): creates axonn::libtorch, which links the project's target torch if it
# exists.
function(axonn_add_libtorch folder)
  add_library(axonn::libtorch INTERFACE IMPORTED)
  target_include_directories(axonn::libtorch SYSTEM INTERFACE
    ${folder}/include ${folder}/include/torch/csrc/api/include)
  if(TARGET torch)
    target_link_libraries(axonn::libtorch INTERFACE torch)
  else()
    target_link_libraries(axonn::libtorch INTERFACE ${folder}/lib/libtorch_cpu.so ${folder}/lib/libc10.so)
  endif()
  target_link_libraries(axonn::libtorch INTERFACE Threads::Threads)
  target_link_options(axonn::libtorch INTERFACE -Wl,--allow-shlib-undefined)
  # The OpenMP that LibTorch itself loads. A second OpenMP would start its own threads.
  file(GLOB openmp ${folder}/lib/libgomp*.so* ${folder}/../torch.libs/libgomp*.so*)
  if(NOT openmp)
    file(GLOB openmp ${folder}/lib/libiomp5.so ${folder}/lib/libomp.so*)
  endif()
  if(openmp)
    list(GET openmp 0 openmp)
    target_link_libraries(axonn::libtorch INTERFACE ${openmp})
  else()
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(axonn::libtorch INTERFACE OpenMP::OpenMP_CXX)
  endif()
endfunction()

# axonn_add_libtorch_cuda(FOLDER LIBRARIES): creates axonn::libtorch_cuda, the CUDA part, with
# LIBRARIES (NCCL and the CUDA runtime).
function(axonn_add_libtorch_cuda folder libraries)
  add_library(axonn::libtorch_cuda INTERFACE IMPORTED)
  # Our code uses no symbol of libtorch_cuda, which registers itself. With --as-needed the linker
  # would drop it.
  target_link_libraries(axonn::libtorch_cuda INTERFACE axonn::libtorch
    "-Wl,--push-state,--no-as-needed,\"${folder}/lib/libtorch_cuda.so\",--pop-state"
    ${folder}/lib/libc10_cuda.so ${libraries})
endfunction()

# axonn_find_cuda_libraries(FOLDER CUDART HINTS...): sets AXONN_NCCL_LIBRARY and
# AXONN_CUDART_LIBRARY (cached) to those that LibTorch itself loads: beside a Python package, inside
# an archive's lib/, or the system's. CUDART: libcudart.so.13.
macro(axonn_find_cuda_libraries folder cudart)
  file(GLOB axonn_cuda_folders
    ${folder}/../nvidia/nccl ${folder}/../nvidia/cu[0-9]* ${folder}/../nvidia/cuda_runtime)
  find_library(AXONN_NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${axonn_cuda_folders} ${ARGN} PATH_SUFFIXES lib)
  find_library(AXONN_CUDART_LIBRARY NAMES ${cudart} cudart HINTS ${axonn_cuda_folders} ${ARGN} PATH_SUFFIXES lib)
  mark_as_advanced(AXONN_NCCL_LIBRARY AXONN_CUDART_LIBRARY)
endmacro()
