#pragma once

#include <ostream>
#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/layers/context.hpp"
#include "axonn/wrap/unit.hpp"
#include "wrap/module_place.hpp"

namespace axonn {

// In the place of a child of a Sequential: has the child's parameters, buffers and children under
// their names, and calls it.
class StandIn : public torch::nn::Module {
 public:
  explicit StandIn(torch::nn::AnyModule inner) : Module(inner.ptr()->name()), inner_(std::move(inner)) {
    const auto child = inner_.ptr();
    for (const auto& each : child->named_parameters(/*recurse=*/false))
      register_parameter(each.key(), each.value(), each.value().requires_grad());
    for (const auto& each : child->named_buffers(/*recurse=*/false)) register_buffer(each.key(), each.value());
    for (const auto& each : child->named_children()) register_module(each.key(), each.value());
  }

  void train(bool on) override { inner_.ptr()->train(on); }
  bool is_training() const noexcept override { return inner_.ptr()->is_training(); }
  void pretty_print(std::ostream& stream) const override { inner_.ptr()->pretty_print(stream); }

 protected:
  at::Tensor call(at::Tensor input) { return inner_.forward<at::Tensor>(std::move(input)); }

 private:
  torch::nn::AnyModule inner_;
};

class SequentialUnit final : public StandIn, public UnitBase {
 public:
  using StandIn::StandIn;
  at::Tensor forward(at::Tensor input) {
    const Run run(*this, {&input});
    auto output = call(std::move(input));
    run.record({&output});
    return output;
  }
};

// The child between two activations that lie elsewhere than it needs them.
class Converted final : public StandIn {
 public:
  Converted(torch::nn::AnyModule inner, Context& context, ModulePlace place)
      : StandIn(std::move(inner)), context_(context), place_(std::move(place)) {}
  at::Tensor forward(at::Tensor x) {
    return place_.compute(context_, x, is_training(), [this](const at::Tensor& taken) { return call(taken); });
  }

 private:
  ContextHandle context_;
  ModulePlace place_;
};

}  // namespace axonn
