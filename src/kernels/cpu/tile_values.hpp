#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "kernels/attention_by_blocks.hpp"

namespace axonn {

// The values of a rule for the scores (1, heads, queries, keys) of a tile, in their type; or none.
template <typename T>
class TileValues {
 public:
  TileValues(const AttentionRules::OfPart& rule, const AttentionPart& part, const at::Tensor& like) {
    if (!rule) return;
    tensor_ = rule(part, like);
    if (!tensor_.defined()) return;
    tensor_ = tensor_.expand(like.sizes()).to(like.scalar_type());
    if (tensor_.stride(3) != 1) tensor_ = tensor_.contiguous();
    data_ = tensor_.const_data_ptr<T>();
    of_head_ = tensor_.stride(1);
    of_query_ = tensor_.stride(2);
  }
  const T* row(int64_t head, int64_t query) const {
    return data_ == nullptr ? nullptr : data_ + head * of_head_ + query * of_query_;
  }

 private:
  at::Tensor tensor_;
  const T* data_ = nullptr;
  int64_t of_head_ = 0, of_query_ = 0;
};

}  // namespace axonn
