#pragma once

#include "axonn/wrap/shard.hpp"

namespace axonn {

// Divides the work of a module's Sequentials and of its typed members (nn.hpp) over X and Y too,
// AxoNN's easy mode (section V); its other parts are wrapped as shard() does it:
//
//   nn::Sequential net(nn::Linear(784, 4096), nn::GELU(), nn::Linear(4096, 10));
//   auto parameters = axonn::parallelize(context, *net);
//   torch::optim::AdamW optimizer(parameters.local(), 1e-3);
//
// Steps, options, optimizers and files are those of shard(), with the same names and values. The
// module may be a Sequential, or have some anywhere. A Sequential takes and returns replicated
// tensors, as a typed member does: the rows of this rank, the same on all ranks along X and Y. In
// between, each child gets what it needs:
//
//   Linear, Conv2d, LayerNorm, GroupNorm, Embedding   become layers of axonn with the same weights.
//     Linear and Conv2d take the axis over which their input is split already, else Y, and leave
//     their output over the other one. Conv2d does not split up to 4 channels, as of colours.
//   Dropout     follows the numbers of samples; call Context::set_samples() before forward
//   pointwise activations (ReLU, GELU, ...)   compute what lies on their rank
//   pooling, padding and upsampling of images, and Flatten()   too, where their channels allow it
//   any other   gets a replicated tensor, and computes the same on all ranks along X and Y
//
// Variants that axonn has no layer for stay as they are, with a replicated tensor: groups of a
// Conv2d that the axis does not divide, padding that is not of zeros, norms without weights or with
// fewer features than ranks, an Embedding with a padding_idx, a frozen parameter, a parameter that
// the module has elsewhere too. In the places of replaced children the Sequentials hold other
// modules; parameters.names() has the names of the weights.
//
// Every rank of the grid calls it with the same module. UserError on all ranks as in shard(), and
// that names a child which takes another number of features than the one before it gives (where
// that is known), was parallelized before, or draws random numbers that would differ along X and Y;
// or if nothing can be divided.
WrappedModule parallelize(Context& context, torch::nn::Module& module, const ShardOptions& options = {});

}  // namespace axonn
