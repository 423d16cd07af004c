#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "axonn/layers/context_handle.hpp"
#include "axonn/layers/parameter.hpp"

namespace axonn {

// Base of every layer that owns sharded parameters. Context::materialize finds them through it. A
// layer that outlives its context cannot compute any more.
class ShardedModule : public torch::nn::Module {
 public:
  explicit ShardedModule(Context& context) : context_(context) {}
  const std::vector<std::pair<std::string, ShardedParameter>>& sharded_parameters() const {
    return sharded_parameters_;
  }

 protected:
  ShardedParameter register_sharded(std::string name, ShardedParameter::Options options) {
    return sharded_parameters_.emplace_back(std::move(name), ShardedParameter(std::move(options))).second;
  }
  Context& context() const { return context_; }

 private:
  ContextHandle context_;
  std::vector<std::pair<std::string, ShardedParameter>> sharded_parameters_;
};

// A user's handle of a layer. Copies share the layer, as torch's module holders do. layer(input)
// calls its forward.
template <typename Impl, typename Options>
class Layer : public torch::nn::ModuleHolder<Impl> {
 public:
  using torch::nn::ModuleHolder<Impl>::ModuleHolder;
  Layer(Context& context, Options options) : Layer(std::make_shared<Impl>(context, std::move(options))) {}
  template <typename Input>
  auto operator()(const Input& input) {
    return this->impl_->forward(input);
  }
};

}  // namespace axonn
