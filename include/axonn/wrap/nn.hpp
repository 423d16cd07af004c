#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "axonn/wrap/member.hpp"

// Typed members of a module that parallelize() divides over X and Y. A program of LibTorch takes
// them by one line:
//
//   namespace nn = axonn::nn;  // in place of torch::nn
//
//   struct Mlp : nn::Module {
//     Mlp() : up(64, 256), down(256, 64) {
//       register_module("up", up);
//       register_module("down", down);
//       nn::keep_split(up, down);
//     }
//     torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(x))); }
//     nn::Linear up, down;
//   };
//   auto parameters = axonn::parallelize(context, *net);
//
// All other names are those of torch::nn. The types below have LibTorch's options, names of
// parameters and initial values, because they derive from LibTorch's. Until parallelize() they
// compute as LibTorch's do, and after shard() too, except for BatchNorm.
//
// Each takes and returns a replicated tensor with the dims of LibTorch: the rows of this rank, the
// same on all ranks along X and Y. So forward is written as for one process. Inside:
//
//   Linear, Conv2d   cut the input over Y and gather the output over X. The weight is divided by
//     X, Y and Z. Conv2d does not split up to 4 channels, as of colours.
//   Embedding   has words over X and features over Y, and gathers the output over Y
//   LayerNorm, GroupNorm   compute on every rank with the whole tensor, and shard() says where
//     their weights lie; behind keep_split(), with the features of this rank
//   Dropout   follows the numbers of samples; call Context::set_samples() before forward
//   BatchNorm1d, BatchNorm2d   take their statistics over the rows of all ranks of Z and data,
//     after shard() too: output, gradients and running statistics are those of one process. Every
//     rank calls them. shard() says where their weights lie.
//
// As children of a Sequential they are to parallelize() what LibTorch's are. Variants that it has
// no layer for, and members that are an axonn::Unit, compute on every rank with the whole tensor.
namespace axonn::nn {

using namespace torch::nn;

using LinearImpl = MemberImpl<torch::nn::LinearImpl>;
using Conv2dImpl = MemberImpl<torch::nn::Conv2dImpl>;
using EmbeddingImpl = MemberImpl<torch::nn::EmbeddingImpl>;
using LayerNormImpl = MemberImpl<torch::nn::LayerNormImpl>;
using GroupNormImpl = MemberImpl<torch::nn::GroupNormImpl>;
using DropoutImpl = MemberImpl<torch::nn::DropoutImpl>;
using BatchNorm1dImpl = BatchNormMember<torch::nn::BatchNorm1dImpl>;
using BatchNorm2dImpl = BatchNormMember<torch::nn::BatchNorm2dImpl>;
TORCH_MODULE(Linear);
TORCH_MODULE(Conv2d);
TORCH_MODULE(Embedding);
TORCH_MODULE(LayerNorm);
TORCH_MODULE(GroupNorm);
TORCH_MODULE(Dropout);
TORCH_MODULE(BatchNorm1d);
TORCH_MODULE(BatchNorm2d);

// The output of `first` stays split over the axis that it leaves it on, and `second` takes it so:
// nothing is gathered in between, and each rank computes its features only. Call it where the
// members are registered, for every pair. A Linear or Conv2d leaves its output over X, or over Y
// if it takes a split input over X; the others leave it as they take it.
//
// The tensor between them has this rank's features in its last dim, or channels in dim 1. Forward
// may compute there what keeps features apart and reads no parameter: activations, sums of tensors
// that are split alike, pooling, attention by heads. Write -1 for sizes that count features:
//
//   nn::keep_split(query, out, {.heads = 4});  // likewise key and value
//   query(x).view({rows, length, -1, width_of_a_head})
//
// A member may be in several pairs. All that read a split output must be in a pair with its member;
// what else forward does with it is noticed with ShardOptions::check_layouts only, and verify()
// shows it. parallelize() throws UserError where the members of a pair do not fit.
template <typename First, typename Second>
void keep_split(const First& first, const Second& second, const KeepSplit& options = {}) {
  MemberBase::link(*first.ptr(), *second.ptr(), options);
}

}  // namespace axonn::nn
