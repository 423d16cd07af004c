#include "layers/ops/later_queries.hpp"

#include <array>
#include <tuple>
#include <vector>

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/logaddexp.h>

namespace axonn {
namespace {

// Queries and some of their keys.
struct Part {
  Tensor queries, keys, values;
  bool causal;
};

// The keys before all queries, and the queries' own.
std::array<Part, 2> parts_of(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  const int64_t own = queries.size(2), before = keys.size(2) - own;
  return {Part{queries, keys.narrow(2, 0, before), values.narrow(2, 0, before), false},
          Part{queries, keys.narrow(2, before, own), values.narrow(2, before, own), true}};
}

class LaterQueries : public TensorOperation {
 public:
  std::string name() const override { return "later_queries"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].keep(inputs[i]);
    const auto parts = parts_of(inputs[0], inputs[1], inputs[2]);
    std::array<Tensor, 2> outputs, sums;  // sums: logarithms of the sums of exponentials
    for (size_t i = 0; i < parts.size(); ++i)
      std::tie(outputs[i], sums[i]) = at::_scaled_dot_product_flash_attention_for_cpu(
          parts[i].queries, parts[i].keys, parts[i].values, /*dropout_p=*/0, parts[i].causal);
    sums_ = at::logaddexp(sums[0], sums[1]);
    const auto share = [&](size_t i) { return outputs[i] * (sums[i] - sums_).exp().unsqueeze(-1); };
    output_ = (share(0) + share(1)).to(inputs[0].scalar_type());
    return {output_.alias()};
  }

  // Given the output and sums of all keys, the kernel's backward of some keys is right for them.
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const auto parts = parts_of(inputs_[0].get(), inputs_[1].get(), inputs_[2].get());
    const Tensor grad = gradients[0].stride(-1) == 1 ? gradients[0] : gradients[0].contiguous();  // as the kernel reads
    std::array<Tensor, 2> queries, keys, values;
    for (size_t i = 0; i < parts.size(); ++i)
      std::tie(queries[i], keys[i], values[i]) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          grad, parts[i].queries, parts[i].keys, parts[i].values, output_, sums_, /*dropout_p=*/0, parts[i].causal);
    return {queries[0] + queries[1], at::cat({keys[0], keys[1]}, 2), at::cat({values[0], values[1]}, 2)};
  }

  void release() override {
    for (Saved& input : inputs_) input.reset();
    output_.reset();
    sums_.reset();
  }

 private:
  std::array<Saved, 3> inputs_;  // queries, keys, values
  Tensor output_, sums_;
};

}  // namespace

std::unique_ptr<TensorOperation> later_queries() { return std::make_unique<LaterQueries>(); }

}  // namespace axonn
