#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <torch/nn/module.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/sharded_module.hpp"
#include "wrap/stream.hpp"

namespace axonn {

// A module of LibTorch as one whose parameters and work are divided over X and Y.
struct SplitLayer {
  std::shared_ptr<ShardedModule> module;  // null without parameters
  Stream input, output;
  std::function<at::Tensor(const at::Tensor&)> run;  // from input to output
};

// The layer that takes the place of `child`, chosen so that `before` fits if possible. Nothing if
// axonn has none that computes the same: the child then takes a replicated tensor. Its parameters
// have the names of the child's. The output features of a Linear may be several equal parts, each
// split by itself.
std::optional<SplitLayer> split_layer(Context& context, const torch::nn::Module& child, const Stream& before,
                                      int64_t parts = 1);

// Whether a child without parameters leaves the stream where it is, and may take it as it lies.
bool keeps_stream(const Context& context, const torch::nn::Module& child, const Stream& before);
bool is_dropout(const torch::nn::Module& module);
bool is_norm(const torch::nn::Module& module);  // LayerNorm or GroupNorm
bool is_linear(const torch::nn::Module& module);
bool is_embedding(const torch::nn::Module& module);
// The stream behind a Flatten that need not gather; nothing if `child` is none, or must.
std::optional<Stream> flattened(const Context& context, const torch::nn::Module& child, const Stream& before);

// Whether it draws from LibTorch's generator, which goes its own way on each rank.
bool draws_random_numbers(const torch::nn::Module& module);

// The tensor of LibTorch as a layer stores it: a kernel of Conv2d has its channels last.
inline at::Tensor as_stored(const at::Tensor& named) { return named.dim() == 4 ? named.permute({0, 2, 3, 1}) : named; }
// The reverse, from its elements.
at::Tensor as_named(const at::Tensor& stored, at::IntArrayRef sizes);

}  // namespace axonn
