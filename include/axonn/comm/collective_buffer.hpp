#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "axonn/comm/scattered_tensors.hpp"

namespace axonn {

// The data of a fused collective: a contiguous tensor, or places of scattered tensors.
class CollectiveBuffer {
 public:
  CollectiveBuffer() = default;
  CollectiveBuffer(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  CollectiveBuffer(std::shared_ptr<const ScatteredTensors> scattered, Range places)
      : scattered_(std::move(scattered)), places_(places) {}

  bool defined() const { return scattered_ != nullptr || tensor_.defined(); }
  int64_t numel() const { return scattered_ ? places_.size() : tensor_.numel(); }  // with empty places
  at::ScalarType scalar_type() const { return scattered_ ? scattered_->scalar_type() : tensor_.scalar_type(); }
  int64_t element_size() const {
    return scattered_ ? scattered_->element_size() : static_cast<int64_t>(tensor_.element_size());
  }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }

  const at::Tensor& tensor() const { return tensor_; }                                     // undefined when scattered
  const std::shared_ptr<const ScatteredTensors>& scattered() const { return scattered_; }  // or null
  Range places() const { return places_; }

 private:
  at::Tensor tensor_;
  std::shared_ptr<const ScatteredTensors> scattered_;
  Range places_;
};

}  // namespace axonn
