#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "wrap/split_layer.hpp"

namespace axonn {

// What parallelize() will do with the Sequentials of a module.
struct ParallelPlan {
  // A child that is replaced, or whose input or output is converted.
  struct Child {
    torch::nn::SequentialImpl* parent = nullptr;
    size_t index = 0;
    std::string key, name;
    std::optional<SplitLayer> layer;  // nothing: the child itself computes
    Stream before, input, output, after;
  };
  std::vector<Child> children;
  // The layers with parameters, by what they replace. A module in several places is one layer.
  std::map<const torch::nn::Module*, std::shared_ptr<ShardedModule>> layers;
};

// Walks every Sequential of the module, with the layout in hand, and changes nothing. UserError as
// parallelize() says.
ParallelPlan plan_sequentials(torch::nn::Module& module, Context& context);

}  // namespace axonn
