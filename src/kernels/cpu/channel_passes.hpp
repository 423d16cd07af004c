#pragma once

#include <ATen/core/Tensor.h>

// Passes over images (batch, height, width, channels) with numbers per image and channel (batch,
// channels), which are fp32 for bf16 and fp16. On a CPU they are our own loops over contiguous
// memory: LibTorch's group norm is twenty times slower in channels-last memory than in
// channels-first memory. Sums do not depend on the number of threads.
namespace axonn {

struct ChannelMoments {
  at::Tensor mean;
  at::Tensor variance;  // mean of squared distances from the mean, in a second pass
};
ChannelMoments channel_moments(const at::Tensor& images);

// (images - mean) * scale + shift
at::Tensor normalise(const at::Tensor& images, const at::Tensor& mean, const at::Tensor& scale,
                     const at::Tensor& shift);

struct ChannelSums {
  at::Tensor gradient;  // sum of grad
  at::Tensor product;   // sum of grad * (images - mean)
};
ChannelSums channel_sums(const at::Tensor& grad, const at::Tensor& images, const at::Tensor& mean);

// grad * scale + (images - mean) * slope + shift
at::Tensor combine(const at::Tensor& grad, const at::Tensor& images, const at::Tensor& mean, const at::Tensor& scale,
                   const at::Tensor& slope, const at::Tensor& shift);

}  // namespace axonn
