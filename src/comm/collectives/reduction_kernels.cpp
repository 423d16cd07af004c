#include "comm/collectives/reduction_kernels.hpp"

#include <array>
#include <bit>
#include <cstdint>

#include <c10/util/Half.h>

#include "axonn/core/error.hpp"
#include "core/wide_vectors.hpp"

namespace axonn {
namespace {

// Storage types of the two 16-bit floats, with conversions that the compiler can vectorise.
struct BFloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

template <typename T>
AXONN_INLINE T widen(T value) {
  return value;
}
AXONN_INLINE float widen(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
AXONN_INLINE float widen(Half value) { return c10::detail::fp16_ieee_to_fp32_value(value.bits); }

template <typename T>
AXONN_INLINE T narrow(T value, const T&) {
  return value;
}
AXONN_INLINE BFloat16 narrow(float value, const BFloat16&) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(value != value ? 0x7FC0u : rounded)};
}
AXONN_INLINE Half narrow(float value, const Half&) { return {c10::detail::fp16_ieee_from_fp32_value(value)}; }

struct Sum {
  template <typename T>
  AXONN_INLINE static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Max {
  template <typename T>
  AXONN_INLINE static T apply(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};
struct Min {
  template <typename T>
  AXONN_INLINE static T apply(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};

template <typename T, typename Op>
void reduce(void* result, const void* accumulated, const void* own, size_t count) {
  auto* out = static_cast<T*>(result);
  const auto* a = static_cast<const T*>(accumulated);
  const auto* b = static_cast<const T*>(own);
  with_wide_vectors([=]() AXONN_INLINE_LAMBDA {
    // `out` may be exactly `a` or `b`.
    AXONN_INDEPENDENT
    for (size_t i = 0; i < count; ++i) out[i] = narrow(Op::apply(widen(a[i]), widen(b[i])), out[i]);
  });
}

template <typename T>
ReduceKernel choose(ReduceOp op) {
  static const std::array<ReduceKernel, 3> kernels = {reduce<T, Sum>, reduce<T, Max>, reduce<T, Min>};
  return kernels[static_cast<size_t>(op)];
}

}  // namespace

ReduceKernel reduce_kernel(c10::ScalarType dtype, ReduceOp op) {
  switch (dtype) {
    case c10::ScalarType::Double:
      return choose<double>(op);
    case c10::ScalarType::Float:
      return choose<float>(op);
    case c10::ScalarType::BFloat16:
      return choose<BFloat16>(op);
    case c10::ScalarType::Half:
      return choose<Half>(op);
    case c10::ScalarType::Long:
      return choose<int64_t>(op);
    case c10::ScalarType::Int:
      return choose<int32_t>(op);
    case c10::ScalarType::Byte:
      return choose<uint8_t>(op);
    default:
      check_dtype(dtype, "comm.reduce_kernel");
      return nullptr;
  }
}

void check_dtype(c10::ScalarType dtype, const char* where) {
  using c10::ScalarType;
  const bool known = dtype == ScalarType::Double || dtype == ScalarType::Float || dtype == ScalarType::BFloat16 ||
                     dtype == ScalarType::Half || dtype == ScalarType::Long || dtype == ScalarType::Int ||
                     dtype == ScalarType::Byte;
  AXONN_CHECK(known, where, "collectives take fp64, fp32, bf16, fp16, int64, int32 and uint8, got ",
              c10::toString(dtype));
}

}  // namespace axonn
