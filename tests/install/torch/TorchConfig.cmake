# Imitates the TorchConfig.cmake of a LibTorch for CPUs. That of the wheel in .deps cannot be used:
# it needs the CUDA toolkit and links libtorch_cuda.so, whose libraries scripts/setup mostly leaves
# out. AXONN_TEST_LIBTORCH: the folder of that wheel.
foreach(name protobuf::libprotobuf caffe2::mkl torch::cudart)
  add_library(${name} INTERFACE IMPORTED)
endforeach()
include(${AXONN_TEST_LIBTORCH}/share/cmake/Caffe2/Caffe2Targets.cmake)
set_target_properties(torch PROPERTIES
  IMPORTED_LOCATION_RELEASE ${AXONN_TEST_LIBTORCH}/lib/libtorch_cpu.so
  IMPORTED_SONAME_RELEASE libtorch_cpu.so
  INTERFACE_LINK_LIBRARIES torch_cpu_library
  INTERFACE_INCLUDE_DIRECTORIES "${AXONN_TEST_LIBTORCH}/include;${AXONN_TEST_LIBTORCH}/include/torch/csrc/api/include")
