#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <torch/nn/module.h>

#include "wrap/module_place.hpp"

namespace axonn {

// The layer of axonn that takes the place of each module of LibTorch. A module in several places
// has one layer.
class LayerChoice {
 public:
  // `whole`, which outlives this object: modules that are divided by nothing.
  LayerChoice(Context& context, const std::set<const torch::nn::Module*>& whole) : context_(context), whole_(whole) {}

  // To be called of all modules, before choose(): a parameter that two of them have stays theirs.
  void know(const torch::nn::Module& module);
  // Fills in the layer, its input and its output, of which `before` fits if possible.
  void choose(const torch::nn::Module& module, ModulePlace& place, int64_t parts = 1);

  // Whether its layer draws numbers that do not depend on the grid.
  bool is_numbered(const torch::nn::Module& module) const { return numbered_.contains(&module); }
  // Those with parameters, by what they replace.
  const std::map<const torch::nn::Module*, std::shared_ptr<ShardedModule>>& layers() const { return layers_; }

 private:
  std::optional<SplitLayer> known_layer(const torch::nn::Module& module, const Stream& before, int64_t parts);
  SplitLayer dropout_layer(const torch::nn::Module& module, const ModulePlace& place) const;

  Context& context_;
  const std::set<const torch::nn::Module*>& whole_;
  std::map<const at::TensorImpl*, std::set<const torch::nn::Module*>> owners_;
  std::map<const torch::nn::Module*, SplitLayer> made_;
  std::map<const torch::nn::Module*, std::shared_ptr<ShardedModule>> layers_;
  std::set<const torch::nn::Module*> numbered_;
};

}  // namespace axonn
