#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/compare/differences.hpp"
#include "axonn/wrap/shard.hpp"

namespace axonn {

// Tensors of one batch, such as inputs and targets: dim 0 of each is the rows.
using BatchOfRows = std::vector<at::Tensor>;

// A plain network and its loss.
struct PlainNetwork {
  std::shared_ptr<torch::nn::Module> module;
  // The sum of the loss over the given rows, a scalar, computed with `module`.
  std::function<at::Tensor(const BatchOfRows& rows)> loss_sum;
};

struct VerifyOptions {
  // How the module comes onto the grid.
  std::function<WrappedModule(Context&, torch::nn::Module&)> wrap = [](Context& context, torch::nn::Module& module) {
    return shard(context, module);
  };
};

// Whether a network computes the same on the context's grid as in one process:
//
//   const axonn::Verification result = axonn::verify(
//       context, [] {
//         auto net = std::make_shared<Net>();
//         net->to(torch::kDouble);
//         return axonn::PlainNetwork{
//             net, [net](const auto& rows) { return loss(net->forward(rows[0]), rows[1]); }};
//       },
//       {{inputs, targets}});
//   std::cout << result.table();
//
// Makes the network twice, with the same weights: one stays plain and computes all rows, the other
// one is wrapped, and each rank computes its rows. Of every batch it compares the mean loss and,
// over all ranks, the whole gradient of each trained tensor; between batches both take a step of
// SGD, so that changed weights are compared too. The result has the largest differences of all
// batches, beside the tolerances of docs/architecture.md. A gradient that is less than 1/1000 of
// the network's largest is measured by that. The weights and batches are those of the grid's first
// rank.
//
// Every rank of the grid calls it, between steps, and needs memory for the whole network and all
// rows. The context is of fp64, which shows most, or fp32, as are the network and its inputs.
// UserError on all ranks if a batch has too few rows, or tensors that differ in rows; if loss_sum
// gives no scalar with a gradient; if two calls of the plain network differ because it draws
// random numbers, such as Dropout in training; if make_network makes two different networks. In a
// network whose rows depend on each other, such as torch::nn::BatchNorm2d in training, the
// comparison fails; axonn::nn::BatchNorm2d sees the rows of all ranks.
Verification verify(Context& context, const std::function<PlainNetwork()>& make_network,
                    const std::vector<BatchOfRows>& batches, const VerifyOptions& options = {});

}  // namespace axonn
