#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>

#include <dlfcn.h>

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDADataType.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include "axonn/core/error.hpp"
#include "layers/fused/product.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "layers.product";

// A function of cuBLASLt, which LibTorch has loaded: programs need not name the library.
template <typename Function>
Function* loaded(const char* name) {
  void* const function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr) throw BackendError(kWhere, std::string("the cuBLASLt of LibTorch has no ") + name);
  return reinterpret_cast<Function*>(function);
}

void check(cublasStatus_t status, const char* name) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw BackendError(kWhere, std::string(name) + " failed with status " + std::to_string(status));
}

#define AXONN_LT(name) loaded<decltype(name)>(#name)
#define AXONN_LT_CALL(name, ...)                  \
  do {                                            \
    static auto* const function = AXONN_LT(name); \
    check(function(__VA_ARGS__), #name);          \
  } while (false)

struct Destroy {
  void operator()(cublasLtMatmulDesc_t it) const { AXONN_LT(cublasLtMatmulDescDestroy)(it); }
  void operator()(cublasLtMatrixLayout_t it) const { AXONN_LT(cublasLtMatrixLayoutDestroy)(it); }
  void operator()(cublasLtMatmulPreference_t it) const { AXONN_LT(cublasLtMatmulPreferenceDestroy)(it); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

template <typename Value>
void set(const Owned<cublasLtMatmulDesc_t>& to, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  AXONN_LT_CALL(cublasLtMatmulDescSetAttribute, to.get(), attribute, &value, sizeof value);
}
template <typename Value>
void set(const Owned<cublasLtMatmulPreference_t>& to, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  AXONN_LT_CALL(cublasLtMatmulPreferenceSetAttribute, to.get(), attribute, &value, sizeof value);
}

// In cuBLASLt's matrices, columns follow one another. So it is told out^T = b a^T, and sees each
// matrix transposed.
Owned<cublasLtMatrixLayout_t> layout_of(const ProductMatrix& matrix) {
  cublasLtMatrixLayout_t made = nullptr;
  const auto rows = static_cast<uint64_t>(matrix.rows), columns = static_cast<uint64_t>(matrix.columns);
  AXONN_LT_CALL(cublasLtMatrixLayoutCreate, &made, at::cuda::ScalarTypeToCudaDataType(matrix.type),
                matrix.transposed ? rows : columns, matrix.transposed ? columns : rows, matrix.leading);
  return Owned<cublasLtMatrixLayout_t>(made);
}

Owned<cublasLtMatmulDesc_t> describe(const Product& product) {
  cublasLtMatmulDesc_t made = nullptr;
  AXONN_LT_CALL(cublasLtMatmulDescCreate, &made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  Owned<cublasLtMatmulDesc_t> description(made);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (product.bias != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE,
        product.gelu_input != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  } else if (product.sums_of_a != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.sums_of_a);
  } else if (product.gelu_gradient_at != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU);
  }
  const void* const beside = product.gelu_input != nullptr ? product.gelu_input : product.gelu_gradient_at;
  if (beside != nullptr) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.out.leading);
  }
  return description;
}

uint32_t alignment(const void* data) {
  constexpr uintptr_t kMost = 256;
  return static_cast<uint32_t>(std::gcd(reinterpret_cast<uintptr_t>(data), kMost));
}

std::string text_of(const ProductMatrix& matrix) {
  return std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) + " " + c10::toString(matrix.type);
}

}  // namespace

void multiply(const Product& product, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  const size_t workspace_bytes = at::cuda::getCUDABlasLtWorkspaceSize();
  const void* const added = product.added != nullptr ? product.added : product.out.data;
  const auto description = describe(product);
  const auto a = layout_of(product.b), b = layout_of(product.a), out = layout_of(product.out);

  cublasLtMatmulPreference_t made = nullptr;
  AXONN_LT_CALL(cublasLtMatmulPreferenceCreate, &made);
  const Owned<cublasLtMatmulPreference_t> preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product.b.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product.a.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(added));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product.out.data));
  cublasLtMatmulHeuristicResult_t chosen = {};
  int found = 0;
  AXONN_LT_CALL(cublasLtMatmulAlgoGetHeuristic, handle, description.get(), a.get(), b.get(), out.get(), out.get(),
                preference.get(), 1, &chosen, &found);
  if (found == 0)
    throw BackendError(kWhere, "cuBLASLt has no product of " + text_of(product.a) + " and " + text_of(product.b) +
                                   " into " + text_of(product.out) +
                                   " with what follows it; unset AXONN_PRODUCT_EPILOGUES");

  const float one = 1, beta = product.added != nullptr ? 1 : 0;
  AXONN_LT_CALL(cublasLtMatmul, handle, description.get(), &one, product.b.data, a.get(), product.a.data, b.get(),
                &beta, added, out.get(), product.out.data, out.get(), &chosen.algo, at::cuda::getCUDABlasLtWorkspace(),
                workspace_bytes, c10::cuda::getCurrentCUDAStream().stream());
}

}  // namespace axonn
