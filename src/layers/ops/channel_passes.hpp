#pragma once

#include <ATen/core/Tensor.h>

// Passes over pictures (batch, height, width, channels) with numbers of every picture's channels (batch, channels), fp32 for bf16 and fp16.
// On a CPU they are loops of ours over contiguous memory: LibTorch's group norm takes twenty times as long for channels that lie together
// as for channels that lie apart. Sums do not depend on the number of threads.
namespace axonn {

struct ChannelMoments {
  at::Tensor mean;
  at::Tensor variance;  // mean of squared distances from the mean, in a second pass
};
ChannelMoments channel_moments(const at::Tensor& pictures);

// (pictures - mean) * scale + shift
at::Tensor normalise(const at::Tensor& pictures, const at::Tensor& mean, const at::Tensor& scale, const at::Tensor& shift);

struct ChannelSums {
  at::Tensor gradient;  // of grad
  at::Tensor product;   // of grad * (pictures - mean)
};
ChannelSums channel_sums(const at::Tensor& grad, const at::Tensor& pictures, const at::Tensor& mean);

// grad * scale + (pictures - mean) * slope + shift
at::Tensor combine(const at::Tensor& grad, const at::Tensor& pictures, const at::Tensor& mean, const at::Tensor& scale,
                   const at::Tensor& slope, const at::Tensor& shift);

}  // namespace axonn
