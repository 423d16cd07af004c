#include "kernels/cpu/channel_passes.hpp"

#include <algorithm>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include "core/wide_vectors.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr int64_t kChannelsAtOnce = 64;

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

at::ScalarType wide_type(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
Tensor wide(const Tensor& tensor) { return tensor.to(wide_type(tensor)); }

Tensor per_pixel(const Tensor& of_channels) { return of_channels.unsqueeze(1).unsqueeze(1); }

// Some channels of one image: `width` values per pixel, pixels `stride` apart.
template <typename T>
struct Block {
  T* values;
  int64_t pixels, stride, width;
};

// Calls body(image, first channel, width) for blocks of channels, on several threads.
template <typename Body>
void for_blocks(const Tensor& images, const Body& body) {
  const int64_t channels = images.size(3), blocks = (channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
  parallel_for(0, images.size(0) * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kChannelsAtOnce;
      with_wide_vectors(
          [&]() AXONN_INLINE_LAMBDA { body(i / blocks, first, std::min(kChannelsAtOnce, channels - first)); });
    }
  });
}

template <typename T>
Block<const T> block_of(const Tensor& images, int64_t image, int64_t first, int64_t width) {
  const int64_t pixels = images.size(1) * images.size(2), channels = images.size(3);
  return {images.const_data_ptr<T>() + image * pixels * channels + first, pixels, channels, width};
}

template <typename T>
Block<T> block_of_output(const Tensor& images, int64_t image, int64_t first, int64_t width) {
  const int64_t pixels = images.size(1) * images.size(2), channels = images.size(3);
  return {images.mutable_data_ptr<T>() + image * pixels * channels + first, pixels, channels, width};
}

// The numbers of a block's channels, in (batch, channels).
template <typename W>
W* numbers(const Tensor& of_channels, int64_t image, int64_t first) {
  return of_channels.mutable_data_ptr<W>() + image * of_channels.size(1) + first;
}

// sum[c] = the sum of term(pixel, c) over all pixels.
template <typename W, typename Term>
AXONN_INLINE void add_up(int64_t pixels, int64_t width, W* sum, const Term& term) {
  W local[kChannelsAtOnce] = {};
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    for (int64_t c = 0; c < width; ++c) local[c] += term(pixel, c);
  std::copy_n(local, width, sum);
}

Tensor empty_of_channels(const Tensor& images) {
  return at::empty({images.size(0), images.size(3)}, images.options().dtype(wide_type(images)));
}

template <typename T>
void moments_on_cpu(const Tensor& images, const ChannelMoments& result) {
  using W = Wide<T>;
  for_blocks(images, [&](int64_t image, int64_t first, int64_t width) AXONN_INLINE_LAMBDA {
    const auto in = block_of<T>(images, image, first, width);
    W *mean = numbers<W>(result.mean, image, first), *variance = numbers<W>(result.variance, image, first);
    const W share = W{1} / static_cast<W>(in.pixels);
    add_up(in.pixels, width, mean, [&](int64_t pixel, int64_t c) AXONN_INLINE_LAMBDA {
      return static_cast<W>(in.values[pixel * in.stride + c]);
    });
    for (int64_t c = 0; c < width; ++c) mean[c] *= share;
    add_up(in.pixels, width, variance, [&](int64_t pixel, int64_t c) AXONN_INLINE_LAMBDA {
      const W distance = static_cast<W>(in.values[pixel * in.stride + c]) - mean[c];
      return distance * distance;
    });
    for (int64_t c = 0; c < width; ++c) variance[c] *= share;
  });
}

template <typename T>
void normalise_on_cpu(const Tensor& images, const Tensor& mean, const Tensor& scale, const Tensor& shift,
                      const Tensor& result) {
  using W = Wide<T>;
  for_blocks(images, [&](int64_t image, int64_t first, int64_t width) AXONN_INLINE_LAMBDA {
    const auto in = block_of<T>(images, image, first, width);
    const auto out = block_of_output<T>(result, image, first, width);
    const W *m = numbers<W>(mean, image, first), *a = numbers<W>(scale, image, first),
            *b = numbers<W>(shift, image, first);
    for (int64_t pixel = 0; pixel < in.pixels; ++pixel)
      for (int64_t c = 0; c < width; ++c)
        out.values[pixel * out.stride + c] =
            static_cast<T>((static_cast<W>(in.values[pixel * in.stride + c]) - m[c]) * a[c] + b[c]);
  });
}

template <typename T>
void sums_on_cpu(const Tensor& grad, const Tensor& images, const Tensor& mean, const ChannelSums& result) {
  using W = Wide<T>;
  for_blocks(images, [&](int64_t image, int64_t first, int64_t width) AXONN_INLINE_LAMBDA {
    const auto g = block_of<T>(grad, image, first, width), x = block_of<T>(images, image, first, width);
    const W* m = numbers<W>(mean, image, first);
    W gradient[kChannelsAtOnce] = {}, product[kChannelsAtOnce] = {};
    for (int64_t pixel = 0; pixel < x.pixels; ++pixel)
      for (int64_t c = 0; c < width; ++c) {
        const auto value = static_cast<W>(g.values[pixel * g.stride + c]);
        gradient[c] += value;
        product[c] += value * (static_cast<W>(x.values[pixel * x.stride + c]) - m[c]);
      }
    std::copy_n(gradient, width, numbers<W>(result.gradient, image, first));
    std::copy_n(product, width, numbers<W>(result.product, image, first));
  });
}

template <typename T>
void combine_on_cpu(const Tensor& grad, const Tensor& images, const Tensor& mean, const Tensor& scale,
                    const Tensor& slope, const Tensor& shift, const Tensor& result) {
  using W = Wide<T>;
  for_blocks(images, [&](int64_t image, int64_t first, int64_t width) AXONN_INLINE_LAMBDA {
    const auto g = block_of<T>(grad, image, first, width), x = block_of<T>(images, image, first, width);
    const auto out = block_of_output<T>(result, image, first, width);
    const W *m = numbers<W>(mean, image, first), *a = numbers<W>(scale, image, first),
            *k = numbers<W>(slope, image, first), *b = numbers<W>(shift, image, first);
    for (int64_t pixel = 0; pixel < x.pixels; ++pixel)
      for (int64_t c = 0; c < width; ++c) {
        const int64_t i = pixel * x.stride + c;
        out.values[i] =
            static_cast<T>(static_cast<W>(g.values[i]) * a[c] + (static_cast<W>(x.values[i]) - m[c]) * k[c] + b[c]);
      }
  });
}

template <typename Body>
void with_type(const Tensor& images, const Body& body) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, images.scalar_type(), "channel_passes",
                                  [&] { body(scalar_t{}); });
}

}  // namespace

ChannelMoments channel_moments(const Tensor& images) {
  if (!images.is_cpu()) {
    auto [variance, mean] = at::var_mean(wide(images), at::IntArrayRef{1, 2}, /*correction=*/0, /*keepdim=*/false);
    return {.mean = std::move(mean), .variance = std::move(variance)};
  }
  const ChannelMoments result{.mean = empty_of_channels(images), .variance = empty_of_channels(images)};
  with_type(images, [&](auto type) { moments_on_cpu<decltype(type)>(images.contiguous(), result); });
  return result;
}

Tensor normalise(const Tensor& images, const Tensor& mean, const Tensor& scale, const Tensor& shift) {
  if (!images.is_cpu())
    return (wide(images) - per_pixel(mean)).mul_(per_pixel(scale)).add_(per_pixel(shift)).to(images.scalar_type());
  const Tensor in = images.contiguous(), result = at::empty_like(in);
  with_type(in, [&](auto type) {
    normalise_on_cpu<decltype(type)>(in, mean.contiguous(), scale.contiguous(), shift.contiguous(), result);
  });
  return result;
}

ChannelSums channel_sums(const Tensor& grad, const Tensor& images, const Tensor& mean) {
  if (!images.is_cpu()) {
    const Tensor g = wide(grad);
    return {.gradient = g.sum({1, 2}), .product = (g * (wide(images) - per_pixel(mean))).sum({1, 2})};
  }
  const ChannelSums result{.gradient = empty_of_channels(images), .product = empty_of_channels(images)};
  with_type(images, [&](auto type) {
    sums_on_cpu<decltype(type)>(grad.contiguous(), images.contiguous(), mean.contiguous(), result);
  });
  return result;
}

Tensor combine(const Tensor& grad, const Tensor& images, const Tensor& mean, const Tensor& scale, const Tensor& slope,
               const Tensor& shift) {
  if (!images.is_cpu()) {
    const Tensor distance = wide(images) - per_pixel(mean);
    return (wide(grad) * per_pixel(scale) + distance * per_pixel(slope) + per_pixel(shift)).to(images.scalar_type());
  }
  const Tensor g = grad.contiguous(), in = images.contiguous(), result = at::empty_like(in);
  with_type(in, [&](auto type) {
    combine_on_cpu<decltype(type)>(g, in, mean.contiguous(), scale.contiguous(), slope.contiguous(), shift.contiguous(),
                                   result);
  });
  return result;
}

}  // namespace axonn
