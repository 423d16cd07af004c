#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/sharded_module.hpp"
#include "axonn/wrap/member.hpp"
#include "axonn/wrap/unit.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {

// The plan of shard() for a module.
struct FoundUnits {
  struct Child {
    torch::nn::SequentialImpl* parent = nullptr;
    size_t index = 0;
    int unit = 0;
  };
  FoundModule module;
  std::vector<Child> children;                   // those of Sequentials that become units
  std::vector<std::pair<UnitBase*, int>> typed;  // each once
};

// Modules that become layers of axonn.
using Layers = std::map<const torch::nn::Module*, std::shared_ptr<ShardedModule>>;

// Walks the module and changes nothing. A parameter of two units belongs to the root; those of
// layers come last, in no unit. UserError as shard() says.
FoundUnits find_parameters(torch::nn::Module& module, const std::vector<std::string>& units, const Context& context,
                           const Layers& layers);

// Whether a name matches a pattern, in which * stands for any text without a dot.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace axonn
