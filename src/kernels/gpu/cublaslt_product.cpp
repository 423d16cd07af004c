#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <dlfcn.h>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDADataType.h>
#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cublasLt.h>

#include "axonn/core/error.hpp"
#include "kernels/gpu/product.hpp"
#include "kernels/medians_in_turn.hpp"

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

cublasLtEpilogue_t epilogue_of(const Product& product) {
  if (product.bias != nullptr)
    return product.gelu_input != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS;
  if (product.sums_of_a != nullptr) return CUBLASLT_EPILOGUE_BGRADB;
  return product.gelu_gradient_at != nullptr ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
}

Owned<cublasLtMatmulDesc_t> describe(const Product& product) {
  cublasLtMatmulDesc_t made = nullptr;
  AXONN_LT_CALL(cublasLtMatmulDescCreate, &made, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  Owned<cublasLtMatmulDesc_t> description(made);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  const cudaDataType_t type = at::cuda::ScalarTypeToCudaDataType(product.out.type);
  if (const void* const bias = product.bias != nullptr ? product.bias : product.sums_of_a) {
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
  }
  if (const void* const beside = product.gelu_input != nullptr ? product.gelu_input : product.gelu_gradient_at) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.out.leading);
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type);
  }
  return description;
}

// In bytes. Tensor cores and their copies want 16. More than kMost counts as kMost, as each
// alignment is measured by itself.
uint32_t alignment(const void* data) {
  constexpr uintptr_t kMost = 64;
  return static_cast<uint32_t>(std::gcd(reinterpret_cast<uintptr_t>(data), kMost));
}

std::string text_of(const ProductMatrix& matrix) {
  return std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) + " " + c10::toString(matrix.type);
}

// A product that cuBLASLt is asked for.
class Call {
 public:
  Call(const Product& product, cublasLtHandle_t handle)
      : product_(product),
        handle_(handle),
        description_(describe(product)),
        a_(layout_of(product.b)),
        b_(layout_of(product.a)),
        out_(layout_of(product.out)) {}

  // Products with the same key have the same algorithms.
  using Key = std::array<int64_t, 19>;
  Key key(int device) const {
    const auto& [out, a, b, added, bias, gelu_input, gelu_gradient_at, sums_of_a] = product_;
    return {device,
            epilogue_of(product_),
            out.rows,
            out.columns,
            a.columns,
            static_cast<int64_t>(out.type),
            static_cast<int64_t>(a.type),
            static_cast<int64_t>(b.type),
            out.leading,
            a.leading,
            b.leading,
            a.transposed,
            b.transposed,
            added != nullptr,
            added == out.data,
            alignment(a.data),
            alignment(b.data),
            alignment(added_to()),
            alignment(out.data)};
  }

  // In the order of cuBLASLt's own estimate, the best one first.
  std::vector<cublasLtMatmulAlgo_t> algorithms(int most) const {
    cublasLtMatmulPreference_t made = nullptr;
    AXONN_LT_CALL(cublasLtMatmulPreferenceCreate, &made);
    const Owned<cublasLtMatmulPreference_t> preference(made);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, at::cuda::getCUDABlasLtWorkspaceSize());
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product_.b.data));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product_.a.data));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(added_to()));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product_.out.data));
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    static auto* const ask = AXONN_LT(cublasLtMatmulAlgoGetHeuristic);
    const cublasStatus_t status = ask(handle_, description_.get(), a_.get(), b_.get(), out_.get(), out_.get(),
                                      preference.get(), most, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (const auto& result : std::span(found).first(static_cast<size_t>(count)))
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    return algorithms;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, void* out) const {
    static auto* const multiply = AXONN_LT(cublasLtMatmul);
    const float one = 1, beta = product_.added != nullptr ? 1 : 0;
    return multiply(handle_, description_.get(), &one, product_.b.data, a_.get(), product_.a.data, b_.get(), &beta,
                    added_to(), out_.get(), out, out_.get(), &algorithm, at::cuda::getCUDABlasLtWorkspace(),
                    at::cuda::getCUDABlasLtWorkspaceSize(), c10::cuda::getCurrentCUDAStream().stream());
  }

  // The fastest one on this device; nothing if none of them computes this product.
  std::optional<cublasLtMatmulAlgo_t> fastest(int device) const {
    constexpr int kMost = 8;
    const auto offered = algorithms(kMost);
    const bool in_place = product_.added == product_.out.data;  // repeated, it would add again
    c10::Allocator* const memory =
        c10::GetAllocator(device < 0 ? c10::kCPU : c10::kCUDA);  // < 0: a test's, on the host
    const c10::DataPtr scratch = in_place ? memory->allocate(out_bytes()) : c10::DataPtr();
    void* const out = in_place ? scratch.get() : product_.out.data;
    std::vector<cublasLtMatmulAlgo_t> able;
    for (const auto& algorithm : offered)
      if (run(algorithm, out) == CUBLAS_STATUS_SUCCESS) able.push_back(algorithm);
    if (able.size() < 2) return able.empty() ? std::nullopt : std::optional(able.front());
    std::vector<std::function<void()>> works;
    for (const auto& algorithm : able)
      works.emplace_back([&] {
        check(run(algorithm, out), "cublasLtMatmul");
        C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream().stream()));
      });
    const std::vector<double> seconds = medians_in_turn(works);
    return able[static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin())];
  }

 private:
  const void* added_to() const { return product_.added != nullptr ? product_.added : product_.out.data; }
  size_t out_bytes() const {
    return static_cast<size_t>(product_.out.rows * product_.out.leading) * c10::elementSize(product_.out.type);
  }

  const Product& product_;
  cublasLtHandle_t handle_;
  Owned<cublasLtMatmulDesc_t> description_;
  Owned<cublasLtMatrixLayout_t> a_, b_, out_;
};

// The algorithm of a call, measured when its key is first seen. Nothing is measured where kernels
// must be the same in each run, and while the stream is captured: then it is cuBLASLt's first.
std::optional<cublasLtMatmulAlgo_t> algorithm_of(const Call& call, int device) {
  static std::mutex mutex;
  static std::map<Call::Key, std::optional<cublasLtMatmulAlgo_t>> known;
  const auto key = call.key(device);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  const bool captured = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  if (captured || at::globalContext().deterministicAlgorithms()) {
    const auto first = call.algorithms(1);
    return first.empty() ? std::nullopt : std::optional(first.front());
  }
  const auto chosen = call.fastest(device);
  const std::lock_guard lock(mutex);
  return known.emplace(key, chosen).first->second;
}

}  // namespace

bool multiply(const Product& product, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const Call call(product, at::cuda::getCurrentCUDABlasLtHandle());
  const auto algorithm = algorithm_of(call, device);
  if (algorithm) {
    check(call.run(*algorithm, product.out.data), "cublasLtMatmul");
    return true;
  }
  if (epilogue_of(product) != CUBLASLT_EPILOGUE_DEFAULT) return false;
  throw BackendError(kWhere, "cuBLASLt has no product of " + text_of(product.a) + " and " + text_of(product.b) +
                                 " into " + text_of(product.out) + "; choose kernels without epilogues (--kernels)");
}

}  // namespace axonn
