// cuBLASLt's products on the host, as its documentation describes them: columns follow one another,
// sums and epilogues are in fp32 or wider, and each result is rounded once. A program that exports
// these functions finds them before those of the library.
#include "gpu/host/host_cublaslt.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <stdexcept>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#define HOST_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Description {
  cublasOperation_t turned_a = CUBLAS_OP_N, turned_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_leading = 0;
  cudaDataType_t bias_type = CUDA_R_64F, aux_type = CUDA_R_64F;  // that of no output, until it is set
};

struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
};

Description& of(cublasLtMatmulDesc_t description) { return *reinterpret_cast<Description*>(description); }
const Layout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Layout*>(layout); }

// Calls `use` with a pointer of the type's elements.
template <typename Use>
auto typed(cudaDataType_t type, void* data, const Use& use) {
  if (type == CUDA_R_16BF) return use(static_cast<c10::BFloat16*>(data));
  if (type == CUDA_R_16F) return use(static_cast<c10::Half*>(data));
  if (type != CUDA_R_32F) throw std::logic_error("a product of a type that cuBLASLt has no epilogues for");
  return use(static_cast<float*>(data));
}
double read(cudaDataType_t type, const void* data, int64_t place) {
  return typed(type, const_cast<void*>(data), [&](auto* all) { return static_cast<double>(all[place]); });
}
void write(cudaDataType_t type, void* data, int64_t place, double value) {
  typed(type, data, [&](auto* all) {
    all[place] = static_cast<std::remove_pointer_t<decltype(all)>>(static_cast<float>(value));
    return 0;
  });
}

constexpr uint64_t kUnable = 1;  // in an algorithm's data

constexpr double kCubic = 0.044715;
double inner(double x) { return std::numbers::inv_sqrtpi * std::numbers::sqrt2 * (x + kCubic * x * x * x); }
double gelu(double x) { return x / 2 * (1 + std::tanh(inner(x))); }
double gelu_derivative(double x) {
  const double t = std::tanh(inner(x)),
               slope = std::numbers::inv_sqrtpi * std::numbers::sqrt2 * (1 + 3 * kCubic * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * slope;
}

}  // namespace

HOST_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                                    cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t it) {
  delete &of(it);
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t it, cublasLtMatmulDescAttributes_t name,
                                                          const void* value, size_t bytes) {
  const auto take = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(of(it).turned_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(of(it).turned_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(of(it).epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(of(it).bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(of(it).aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(of(it).aux_leading);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(of(it).bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return take(of(it).aux_type);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
HOST_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, uint64_t rows,
                                                      uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t it) {
  delete &of(it);
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t it) {
  delete reinterpret_cast<int*>(it);
  return CUBLAS_STATUS_SUCCESS;
}
HOST_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                                cublasLtMatmulPreferenceAttributes_t, const void*,
                                                                size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
// None where what lies beside the output does not have columns in eights.
HOST_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t it,
                                                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                                          cublasLtMatmulPreference_t, int most,
                                                          cublasLtMatmulHeuristicResult_t* results, int* found) {
  ++host_cublaslt::asked;
  const bool fits = of(it).aux_leading % 8 == 0 && of(it).aux_leading >= static_cast<int64_t>(of(d).rows);
  const bool here = (of(it).aux == nullptr || fits) && of(it).epilogue != host_cublaslt::missing;
  *found = here ? std::min(host_cublaslt::offered, most) : 0;
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].algo.data[0] = host_cublaslt::offered > 1 && i == 0 ? kUnable : 0;
  }
  return CUBLAS_STATUS_SUCCESS;
}

HOST_EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t it, const void* alpha, const void* a,
                                          cublasLtMatrixLayout_t a_layout, const void* b,
                                          cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                          cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                          const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t) {
  if (algorithm->data[0] == kUnable) return CUBLAS_STATUS_NOT_SUPPORTED;
  ++host_cublaslt::products;
  const Description& description = of(it);
  const Layout &of_a = of(a_layout), &of_b = of(b_layout), &of_c = of(c_layout), &of_d = of(d_layout);
  const bool turned_a = description.turned_a == CUBLAS_OP_T, turned_b = description.turned_b == CUBLAS_OP_T;
  const auto size = [](uint64_t number) { return static_cast<int64_t>(number); };
  const int64_t m = size(of_d.rows), n = size(of_d.columns), k = size(turned_a ? of_a.rows : of_a.columns);
  if (size(turned_a ? of_a.columns : of_a.rows) != m || size(turned_b ? of_b.columns : of_b.rows) != k ||
      size(turned_b ? of_b.rows : of_b.columns) != n || size(of_c.rows) != m || size(of_c.columns) != n)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto value_a = [&](int64_t i, int64_t l) {
    return read(of_a.type, a, turned_a ? l + i * of_a.leading : i + l * of_a.leading);
  };
  const auto value_b = [&](int64_t l, int64_t j) {
    return read(of_b.type, b, turned_b ? j + l * of_b.leading : l + j * of_b.leading);
  };
  if ((description.bias != nullptr && description.bias_type != of_d.type) ||
      (description.aux != nullptr && description.aux_type != of_d.type))
    return CUBLAS_STATUS_INVALID_VALUE;
  const double scale = *static_cast<const float*>(alpha), adds = *static_cast<const float*>(beta);
  for (int64_t j = 0; j < n; ++j) {
    double of_column = 0;
    for (int64_t l = 0; l < k; ++l) of_column += value_b(l, j);
    if (description.epilogue == CUBLASLT_EPILOGUE_BGRADB) write(of_d.type, description.bias, j, of_column);
    for (int64_t i = 0; i < m; ++i) {
      double value = 0;
      for (int64_t l = 0; l < k; ++l) value += scale * value_a(i, l) * value_b(l, j);
      if (adds != 0) value += adds * read(of_c.type, c, i + j * of_c.leading);
      const int64_t beside = i + j * description.aux_leading;
      switch (description.epilogue) {
        case CUBLASLT_EPILOGUE_DEFAULT:
        case CUBLASLT_EPILOGUE_BGRADB:
          break;
        case CUBLASLT_EPILOGUE_BIAS:
          value += read(of_d.type, description.bias, i);
          break;
        case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
          value += read(of_d.type, description.bias, i);
          write(of_d.type, description.aux, beside, value);
          value = gelu(value);
          break;
        case CUBLASLT_EPILOGUE_DGELU:
          value *= gelu_derivative(read(of_d.type, description.aux, beside));
          break;
        default:
          return CUBLAS_STATUS_NOT_SUPPORTED;
      }
      write(of_d.type, d, i + j * of_d.leading, value);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
