#pragma once

#include <ATen/core/Tensor.h>

// Images are (batch, height, width, channels) in our layers and (batch, channels, height, width) in
// LibTorch's. The memory is the same if LibTorch's are in its channels-last format.
namespace axonn {

inline at::Tensor channels_second(const at::Tensor& image) { return image.permute({0, 3, 1, 2}); }
inline at::Tensor channels_last(const at::Tensor& image) { return image.permute({0, 2, 3, 1}).contiguous(); }

}  // namespace axonn
