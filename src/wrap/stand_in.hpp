#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/wrap/unit.hpp"
#include "wrap/module_place.hpp"

namespace axonn {

// Another way in which a Sequential calls one of its children. The child itself stays where it is,
// with its type, names and tensors: whoever asks the Sequential for it, or walks the modules, finds
// it.
class StandIn : public torch::nn::Module {
 public:
  explicit StandIn(torch::nn::AnyModule child) : child_(std::move(child)) {}
  virtual at::Tensor forward(at::Tensor input) = 0;
  std::shared_ptr<torch::nn::Module> child() const { return child_.ptr(); }

 protected:
  at::Tensor call(at::Tensor input) { return child_.forward<at::Tensor>(std::move(input)); }

 private:
  torch::nn::AnyModule child_;
};

}  // namespace axonn

// A child as its Sequential keeps it: how to call it, and the module that it gives away.
template <>
struct torch::nn::AnyModuleHolder<axonn::StandIn, at::Tensor> : AnyModulePlaceholder {
  explicit AnyModuleHolder(std::shared_ptr<axonn::StandIn>&& module)
      : AnyModulePlaceholder(typeid(axonn::StandIn)), stand_in(std::move(module)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    at::Tensor* input = arguments.size() == 1 ? arguments.front().try_get<at::Tensor>() : nullptr;
    AXONN_CHECK(input != nullptr, "wrap.unit", "'", stand_in->child()->name(), "' in a Sequential takes ",
                arguments.size(),
                " arguments, and as a unit or after parallelize() it can take one tensor; leave it out of .units, or "
                "make it a member of type axonn::Unit");
    return AnyValue(stand_in->forward(std::move(*input)));
  }
  std::shared_ptr<Module> ptr() override { return stand_in->child(); }
  std::unique_ptr<AnyModulePlaceholder> copy() const override { return std::make_unique<AnyModuleHolder>(*this); }
  std::unique_ptr<AnyModulePlaceholder> clone_module(std::optional<Device>) const override {
    throw axonn::UserError("wrap.unit", "'" + stand_in->child()->name() +
                                            "' is a child of a Sequential that shard() has wrapped, and cannot be "
                                            "cloned with it; call clone() before shard()");
  }

  std::shared_ptr<axonn::StandIn> stand_in;
};

namespace axonn {

class SequentialUnit final : public StandIn, public UnitBase {
 public:
  using StandIn::StandIn;
  at::Tensor forward(at::Tensor input) override {
    const Run run(*this, {&input});
    auto output = call(std::move(input));
    run.record({&output});
    return output;
  }
};

// The child between two activations that lie elsewhere than it needs them.
class Converted final : public StandIn {
 public:
  Converted(torch::nn::AnyModule child, Context& context, ModulePlace place)
      : StandIn(std::move(child)), context_(context), place_(std::move(place)) {}
  at::Tensor forward(at::Tensor x) override {
    return place_.compute(context_, x, child()->is_training(), [this](const at::Tensor& taken) { return call(taken); });
  }

 private:
  ContextHandle context_;
  ModulePlace place_;
};

}  // namespace axonn
