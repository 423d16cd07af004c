#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "axonn/wrap/member.hpp"
#include "wrap/module_place.hpp"

namespace axonn {

// The plan of parallelize() for the Sequentials and typed members of a module.
struct ParallelPlan {
  // A child that is replaced, or whose input or output is converted.
  struct Child {
    torch::nn::SequentialImpl* parent = nullptr;
    size_t index = 0;
    std::string key;
    ModulePlace place;
  };
  std::vector<Child> children;
  std::vector<std::pair<MemberBase*, ModulePlace>> members;
  // The layers with parameters, by what they replace. A module in several places is one layer.
  std::map<const torch::nn::Module*, std::shared_ptr<ShardedModule>> layers;
};

// Walks the module, with the layout in hand, and changes nothing. UserError as parallelize() says.
ParallelPlan plan_layers(torch::nn::Module& module, Context& context, const SplitPlan& plan);
// The plan of shard(): BatchNorms that can be synchronised are, and the rest stays as it is.
ParallelPlan plan_batch_norms(torch::nn::Module& module);

}  // namespace axonn
