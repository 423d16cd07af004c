#pragma once

#include <ostream>
#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/wrap/unit.hpp"

namespace axonn {

// A child of a Sequential as a unit, in the child's place. It has the child's parameters, buffers
// and children under their names.
class SequentialUnit final : public torch::nn::Module, public UnitBase {
 public:
  explicit SequentialUnit(torch::nn::AnyModule inner) : Module(inner.ptr()->name()), inner_(std::move(inner)) {
    const auto child = inner_.ptr();
    for (const auto& each : child->named_parameters(/*recurse=*/false))
      register_parameter(each.key(), each.value(), each.value().requires_grad());
    for (const auto& each : child->named_buffers(/*recurse=*/false)) register_buffer(each.key(), each.value());
    for (const auto& each : child->named_children()) register_module(each.key(), each.value());
  }

  at::Tensor forward(at::Tensor input) {
    const Run run(*this);
    auto output = inner_.forward<at::Tensor>(std::move(input));
    run.record({&output});
    return output;
  }

  void train(bool on) override { inner_.ptr()->train(on); }
  bool is_training() const noexcept override { return inner_.ptr()->is_training(); }
  void pretty_print(std::ostream& stream) const override { inner_.ptr()->pretty_print(stream); }

 private:
  torch::nn::AnyModule inner_;
};

}  // namespace axonn
