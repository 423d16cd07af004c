#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "axonn/core/error.hpp"
#include "axonn/wrap/shard.hpp"

namespace axonn {

// Sizes of each parameter as the module has it, one for each of local(), which is flat. For groups
// of one's own, together with names().
std::vector<std::vector<int64_t>> whole_sizes(const WrappedModule& parameters);

// Two groups for an optimizer of torch::optim: first the parameters of two dims or more, with these
// options; then the others, as biases and the weights of norms, with the same options and no weight
// decay.
//
//   const auto options = torch::optim::AdamWOptions(1e-3).weight_decay(0.1);
//   torch::optim::AdamW optimizer(axonn::decay_groups(parameters, options));
//
// For the options of AdamW, Adam, SGD, RMSprop and Adagrad; SGD takes them a second time, as its
// defaults. State dicts and checkpoints of the optimizer are those without groups. UserError
// without a weight decay.
template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> decay_groups(const WrappedModule& parameters, const Options& options) {
  AXONN_CHECK(options.weight_decay() > 0, "wrap.decay_groups",
              "the options have no weight decay, so both groups would be alike; set .weight_decay(0.1), or give "
              "parameters.local() to the optimizer");
  std::vector<at::Tensor> decayed, others;
  const std::vector<std::vector<int64_t>> sizes = whole_sizes(parameters);
  for (size_t i = 0; i < sizes.size(); ++i) (sizes[i].size() >= 2 ? decayed : others).push_back(parameters.local()[i]);
  Options without = options;
  without.weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::move(decayed), std::make_unique<Options>(options));
  groups.emplace_back(std::move(others), std::make_unique<Options>(without));
  return groups;
}

}  // namespace axonn
