// cuBLAS and cuBLASLt: products are written down with sizes, types, alignment and epilogue.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include <cublasLt.h>
#include <cublas_v2.h>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
};
struct Descriptor {
  cublasComputeType_t compute;
  int transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t leading;
  int batch = 1;
};

Handle& handle_of(cublasHandle_t handle) { return *reinterpret_cast<Handle*>(handle); }
Descriptor& descriptor_of(cublasLtMatmulDesc_t descriptor) { return *reinterpret_cast<Descriptor*>(descriptor); }
Layout& layout_of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Layout*>(layout); }

std::string type_name(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16BF:
      return "bf16";
    case CUDA_R_16F:
      return "fp16";
    case CUDA_R_32F:
      return "fp32";
    case CUDA_R_64F:
      return "fp64";
    default:
      return "type " + std::to_string(type);
  }
}

int64_t type_bytes(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

std::string compute_name(cublasComputeType_t compute, bool tf32) {
  if (compute == CUBLAS_COMPUTE_64F) return "fp64";
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32 || tf32 ? "tf32" : "fp32";
}

std::string epilogue_name(int epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return "none";
    case CUBLASLT_EPILOGUE_BIAS:
      return "bias";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return "gelu+bias";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "gelu+aux+bias";
    case CUBLASLT_EPILOGUE_DGELU:
      return "dgelu";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return "dgelu+bgrad";
    case CUBLASLT_EPILOGUE_BGRADA:
      return "bgrad a";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "bgrad b";
    default:
      return "epilogue " + std::to_string(epilogue);
  }
}

struct Matrix {
  const void* data;
  cudaDataType_t type;
  int64_t leading;
  int64_t stride = 0;
  // The largest power of two up to 16 that divides the address of every column.
  int64_t alignment() const {
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
    return std::gcd(std::gcd(std::gcd(address, leading * type_bytes(type)), stride * type_bytes(type)), int64_t{16});
  }
};

struct Product {
  const char* call;
  int transpose_a, transpose_b;
  int64_t m, n, k;
  Matrix a, b, c;
  std::string compute;
  bool adds;  // beta is not 0
  std::string epilogue = "none";
  int64_t batch = 1;
};

void write_product(const Product& product, cudaStream_t stream) {
  if (!recording()) return;
  const auto letter = [](int transpose) { return transpose == CUBLAS_OP_N ? "n" : "t"; };
  write("product",
        join(product.call, std::string(letter(product.transpose_a)) + letter(product.transpose_b), product.m, product.n,
             product.k, product.batch, type_name(product.a.type), type_name(product.c.type), product.compute,
             product.adds ? "adds" : "sets", product.epilogue,
             std::min({product.a.alignment(), product.b.alignment(), product.c.alignment()}), number_of(stream)));
}

cublasStatus_t multiply(cublasHandle_t handle, const Product& product) {
  if (fails(product.call)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const cudaStream_t stream = handle_of(handle).stream;
  write_product(product, stream);
  return work(stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool tf32(cublasHandle_t handle) { return handle_of(handle).math & CUBLAS_TF32_TENSOR_OP_MATH; }
bool not_zero(const void* beta, cublasComputeType_t compute) {
  return compute == CUBLAS_COMPUTE_64F ? *static_cast<const double*>(beta) != 0 : *static_cast<const float*>(beta) != 0;
}

}  // namespace
}  // namespace dry

using namespace dry;

DRY_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = reinterpret_cast<cublasHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete &handle_of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle_of(handle).stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
DRY_EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle_of(handle).math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle_of(handle).math;
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle_of(handle).pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle_of(handle).pointers;
  return CUBLAS_STATUS_SUCCESS;
}

DRY_EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                       int k, const void*, const void* a, cudaDataType at, int lda, const void* b,
                                       cudaDataType bt, int ldb, const void* beta, void* c, cudaDataType ct, int ldc,
                                       cublasComputeType_t compute, cublasGemmAlgo_t) {
  return multiply(handle, {"cublasGemmEx",
                           ta,
                           tb,
                           m,
                           n,
                           k,
                           {a, at, lda},
                           {b, bt, ldb},
                           {c, ct, ldc},
                           compute_name(compute, tf32(handle)),
                           not_zero(beta, compute)});
}
DRY_EXPORT cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                                                     int m, int n, int k, const void*, const void* a, cudaDataType at,
                                                     int lda, long long sa, const void* b, cudaDataType bt, int ldb,
                                                     long long sb, const void* beta, void* c, cudaDataType ct, int ldc,
                                                     long long sc, int batch, cublasComputeType_t compute,
                                                     cublasGemmAlgo_t) {
  return multiply(handle, {"cublasGemmStridedBatchedEx",
                           ta,
                           tb,
                           m,
                           n,
                           k,
                           {a, at, lda, sa},
                           {b, bt, ldb, sb},
                           {c, ct, ldc, sc},
                           compute_name(compute, tf32(handle)),
                           not_zero(beta, compute),
                           "none",
                           batch});
}

#define DRY_GEMM(LETTER, NUMBER, TYPE, COMPUTE)                                                                      \
  DRY_EXPORT cublasStatus_t cublas##LETTER##gemm_v2(                                                                 \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const NUMBER*,         \
      const NUMBER* a, int lda, const NUMBER* b, int ldb, const NUMBER* beta, NUMBER* c, int ldc) {                  \
    return multiply(handle, {"cublas" #LETTER "gemm",                                                                \
                             ta,                                                                                     \
                             tb,                                                                                     \
                             m,                                                                                      \
                             n,                                                                                      \
                             k,                                                                                      \
                             {a, TYPE, lda},                                                                         \
                             {b, TYPE, ldb},                                                                         \
                             {c, TYPE, ldc},                                                                         \
                             compute_name(COMPUTE, tf32(handle)),                                                    \
                             *beta != 0});                                                                           \
  }                                                                                                                  \
  DRY_EXPORT cublasStatus_t cublas##LETTER##gemmStridedBatched(                                                      \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const NUMBER*,         \
      const NUMBER* a, int lda, long long sa, const NUMBER* b, int ldb, long long sb, const NUMBER* beta, NUMBER* c, \
      int ldc, long long sc, int batch) {                                                                            \
    return multiply(handle, {"cublas" #LETTER "gemmStridedBatched",                                                  \
                             ta,                                                                                     \
                             tb,                                                                                     \
                             m,                                                                                      \
                             n,                                                                                      \
                             k,                                                                                      \
                             {a, TYPE, lda, sa},                                                                     \
                             {b, TYPE, ldb, sb},                                                                     \
                             {c, TYPE, ldc, sc},                                                                     \
                             compute_name(COMPUTE, tf32(handle)),                                                    \
                             *beta != 0,                                                                             \
                             "none",                                                                                 \
                             batch});                                                                                \
  }
DRY_GEMM(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
DRY_GEMM(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)

DRY_EXPORT size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
DRY_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute,
                                                   cudaDataType_t) {
  *descriptor = reinterpret_cast<cublasLtMatmulDesc_t>(new Descriptor{compute});
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete &descriptor_of(descriptor);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                                         cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                         size_t) {
  const auto take = [&](int& field) { std::memcpy(&field, value, sizeof field); };
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) take(descriptor_of(descriptor).transpose_a);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) take(descriptor_of(descriptor).transpose_b);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) take(descriptor_of(descriptor).epilogue);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                                     uint64_t columns, int64_t leading) {
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &layout_of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                           cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                           size_t) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    std::memcpy(&layout_of(layout).batch, value, sizeof layout_of(layout).batch);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<char*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                               cublasLtMatmulPreferenceAttributes_t, const void*,
                                                               size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                         cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                                         cublasLtMatmulHeuristicResult_t* results, int* count) {
  *results = {};
  results->state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
DRY_EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t given, const void*, const void* a,
                                         cublasLtMatrixLayout_t a_layout, const void* b,
                                         cublasLtMatrixLayout_t b_layout, const void* beta, const void*,
                                         cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                                         const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  if (fails("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Descriptor& descriptor = descriptor_of(given);
  const auto matrix = [](const void* data, cublasLtMatrixLayout_t layout) {
    return Matrix{data, layout_of(layout).type, layout_of(layout).leading};
  };
  const bool plain = descriptor.transpose_a == CUBLAS_OP_N;
  write_product({"cublasLtMatmul", descriptor.transpose_a, descriptor.transpose_b,
                 static_cast<int64_t>(layout_of(d_layout).rows), static_cast<int64_t>(layout_of(d_layout).columns),
                 static_cast<int64_t>(plain ? layout_of(a_layout).columns : layout_of(a_layout).rows),
                 matrix(a, a_layout), matrix(b, b_layout), matrix(d, d_layout), compute_name(descriptor.compute, false),
                 not_zero(beta, descriptor.compute), epilogue_name(descriptor.epilogue), layout_of(d_layout).batch},
                stream);
  return work(stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
