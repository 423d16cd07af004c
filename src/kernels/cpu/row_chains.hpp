#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/language/element_type.hpp"
#include "axonn/core/error.hpp"

// The common part of layers that compute a tensor's rows on a CPU by stage chains, a row per call.
namespace axonn {

// The type in which a chain computes.
inline coconet::ElementType inside_of(coconet::ElementType type) {
  return type == coconet::ElementType::fp64 ? coconet::ElementType::fp64 : coconet::ElementType::fp32;
}

// Chains for every floating-point type, each made by Chains(ElementType) on first use.
template <typename Chains>
const Chains& chains_of(at::ScalarType type) {
  using coconet::ElementType;
  static const std::array<Chains, 4> chains = {Chains(ElementType::fp64), Chains(ElementType::fp32),
                                               Chains(ElementType::bf16), Chains(ElementType::fp16)};
  AXONN_ASSERT(at::isFloatingType(type), "stage chains of layers are for floating-point numbers");
  return chains[type == at::kDouble ? 0 : type == at::kFloat ? 1 : type == at::kBFloat16 ? 2 : 3];
}

// The rows of a contiguous tensor (..., n).
class Rows {
 public:
  explicit Rows(const at::Tensor& tensor)
      : data_(static_cast<std::byte*>(tensor.mutable_data_ptr())), bytes_(tensor.size(-1) * tensor.element_size()) {}
  void* row(int64_t number) const { return data_ + number * bytes_; }
  int64_t row_bytes() const { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

}  // namespace axonn
