// cuDNN's graph interface, with one engine for everything, which needs no workspace. An execution
// is written down with the operations of its graph.
#include <string>

#include <cudnn.h>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::string operations;  // the graph's that it leads to
};
struct Handle {
  cudaStream_t stream = nullptr;
};

Descriptor* descriptor_of(cudnnBackendDescriptor_t descriptor) { return static_cast<Descriptor*>(descriptor); }
Handle& handle_of(cudnnHandle_t handle) { return *reinterpret_cast<Handle*>(handle); }

const char* name_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return "convolution";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return "convolution-data-gradient";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return "convolution-weight-gradient";
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return "product";
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return "reduction";
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return "pointwise";
    default:
      return "other";
  }
}

}  // namespace
}  // namespace dry

using namespace dry;

DRY_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new Handle);
  return CUDNN_STATUS_SUCCESS;
}
DRY_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle_of(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
DRY_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle_of(handle).stream;
  return CUDNN_STATUS_SUCCESS;
}
DRY_EXPORT size_t cudnnGetVersion() { return CUDNN_VERSION; }
DRY_EXPORT size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
DRY_EXPORT const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the dry GPU"; }
DRY_EXPORT void cudnnGetLastErrorString(char* text, size_t size) {
  if (size > 0) text[0] = 0;
}

DRY_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                      cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{type, {}};
  return CUDNN_STATUS_SUCCESS;
}
// Descriptors are few, and plans that are kept refer to them.
DRY_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
DRY_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
DRY_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                  cudnnBackendAttributeName_t attribute,
                                                  cudnnBackendAttributeType_t type, int64_t count, const void* value) {
  std::string& operations = descriptor_of(descriptor)->operations;
  const auto* const given = static_cast<const cudnnBackendDescriptor_t*>(value);
  if (attribute == CUDNN_ATTR_OPERATIONGRAPH_OPS) {
    for (int64_t i = 0; i < count; ++i)
      operations += (operations.empty() ? "" : " ") + std::string(name_of(descriptor_of(given[i])->type));
  } else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && count == 1 && operations.empty()) {
    operations = descriptor_of(*given)->operations;
  }
  return CUDNN_STATUS_SUCCESS;
}
DRY_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                                  cudnnBackendAttributeName_t attribute,
                                                  cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count,
                                                  void* value) {
  const bool none = attribute == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || attribute == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE ||
                    attribute == CUDNN_ATTR_ENGINE_KNOB_INFO;
  if (count != nullptr) *count = none ? 0 : 1;
  if (none || value == nullptr || wanted == 0) return CUDNN_STATUS_SUCCESS;
  if (type == CUDNN_TYPE_INT64) *static_cast<int64_t*>(value) = 0;
  if (type == CUDNN_TYPE_INT32) *static_cast<int32_t*>(value) = 0;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto* const result = descriptor_of(*static_cast<cudnnBackendDescriptor_t*>(value));
    if (result != nullptr) result->operations = descriptor_of(descriptor)->operations;
  }
  return CUDNN_STATUS_SUCCESS;
}
DRY_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                             cudnnBackendDescriptor_t) {
  if (fails("cudnnBackendExecute")) return CUDNN_STATUS_EXECUTION_FAILED;
  const cudaStream_t stream = handle_of(handle).stream;
  write("cudnn", join(descriptor_of(plan)->operations, number_of(stream)));
  return work(stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
