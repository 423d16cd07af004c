#include "kernels/cpu/winograd_convolution.hpp"

#include <algorithm>
#include <array>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "core/wide_vectors.hpp"
#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr int64_t kPlaces = 16;             // 4x4
constexpr int64_t kLeastTilesAtOnce = 128;  // a thread's places stay in its cache

template <typename T>
using AllPlaces = std::array<T*, kPlaces>;  // (tiles, channels) of each place

// The three transforms of a line of pixels, applied to the columns of a tile and then to its rows.
// They are B^T, A^T and A of the paper.
struct FromInput {
  static constexpr int kIn = 4, kOut = 4;
  template <typename T>
  AXONN_INLINE static void apply(const T* in, T* out, int step) {
    const T a = in[0], b = in[step], c = in[2 * step], d = in[3 * step];
    out[0] = a - c, out[step] = b + c, out[2 * step] = c - b, out[3 * step] = b - d;
  }
};
struct ToOutput {
  static constexpr int kIn = 4, kOut = 2;
  template <typename T>
  AXONN_INLINE static void apply(const T* in, T* out, int step) {
    const T a = in[0], b = in[step], c = in[2 * step], d = in[3 * step];
    out[0] = a + b + c, out[step] = b - c - d;
  }
};
struct FromOutputGradient {
  static constexpr int kIn = 2, kOut = 4;
  template <typename T>
  AXONN_INLINE static void apply(const T* in, T* out, int step) {
    const T a = in[0], b = in[step];
    out[0] = a, out[step] = a + b, out[2 * step] = a - b, out[3 * step] = -b;
  }
};

// Pointers to the channels of each pixel of a square, or of each place, of one tile.
template <typename T, int side>
using Square = std::array<T*, static_cast<size_t>(side* side)>;

template <typename Transform, typename T>
AXONN_INLINE void transform(const Square<const T, Transform::kIn>& from, const Square<T, Transform::kOut>& to,
                            int64_t channels) {
  constexpr int kSide = 4, kIn = Transform::kIn, kOut = Transform::kOut;
  AXONN_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    T in[kSide * kSide], half[kSide * kSide], out[kSide * kSide];
    for (int row = 0; row < kIn; ++row)
      for (int column = 0; column < kIn; ++column)
        in[row * kSide + column] = from[static_cast<size_t>(row * kIn + column)][c];
    for (int column = 0; column < kIn; ++column) Transform::apply(in + column, half + column, kSide);
    for (int row = 0; row < kOut; ++row) Transform::apply(half + row * kSide, out + row * kSide, 1);
    for (int row = 0; row < kOut; ++row)
      for (int column = 0; column < kOut; ++column)
        to[static_cast<size_t>(row * kOut + column)][c] = out[row * kSide + column];
  }
}

// Images (b, h, w, channels) in tiles of 2x2 pixels; at an odd edge a tile reaches beyond the
// image.
template <typename T>
struct Tiles {
  T* values;
  int64_t height, width, channels;
  T* outside;  // stands for every pixel outside the image

  int64_t rows() const { return (height + 1) / 2; }
  int64_t columns() const { return (width + 1) / 2; }

  // The square of pixels that begins `border` before the tile.
  template <int side>
  AXONN_INLINE Square<T, side> square(int64_t tile, int64_t border) const {
    const int64_t image = tile / (rows() * columns()), row = tile / columns() % rows() * 2 - border,
                  column = tile % columns() * 2 - border;
    Square<T, side> pixels;
    for (int i = 0; i < side * side; ++i) {
      const int64_t y = row + i / side, x = column + i % side;
      const bool inside = y >= 0 && y < height && x >= 0 && x < width;
      pixels[static_cast<size_t>(i)] = inside ? values + ((image * height + y) * width + x) * channels : outside;
    }
    return pixels;
  }
};

template <typename T>
Tiles<const T> tiles_of(const Tensor& images, const Tensor& zero_pixel) {
  return {images.const_data_ptr<T>(), images.size(1), images.size(2), images.size(3), zero_pixel.const_data_ptr<T>()};
}

// The places of some tiles: (16, tiles, channels).
Tensor empty_places(int64_t tiles, int64_t channels, const Tensor& like) {
  return at::empty({kPlaces, tiles, channels}, like.options());
}

template <typename T>
AXONN_INLINE Square<T, 4> places_of(const AllPlaces<T>& places, int64_t tile, int64_t channels) {
  Square<T, 4> all;
  for (size_t place = 0; place < kPlaces; ++place) all[place] = places[place] + tile * channels;
  return all;
}

// Computes the places (16, tiles, channels) of the tiles from `first` on.
template <typename Transform, typename T>
void take(const Tiles<const T>& tiles, int64_t border, int64_t first, const Tensor& places) {
  AllPlaces<T> values;
  for (size_t i = 0; i < kPlaces; ++i)
    values[i] = places.mutable_data_ptr<T>() + static_cast<int64_t>(i) * places.stride(0);
  const int64_t count = places.size(1);
  with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
    for (int64_t i = 0; i < count; ++i)
      transform<Transform, T>(tiles.template square<Transform::kIn>(first + i, border),
                              places_of(values, i, tiles.channels), tiles.channels);
  });
}

// Products of `tiles` with the kernels at each place: (tiles, n) each.
using Products = std::array<Tensor, kPlaces>;

// places (16, tiles, k), kernels (16, n, k)
Products multiply(GemmKernel product, const Tensor& places, const Tensor& kernels) {
  Products products;
  const Tensor batch = product == GemmKernel::mm ? at::bmm(places, kernels.transpose(1, 2)) : Tensor();
  for (size_t i = 0; i < kPlaces; ++i) {
    const auto place = static_cast<int64_t>(i);
    products[i] = batch.defined() ? batch[place] : gemm(product, places[place], kernels[place]);
  }
  return products;
}

template <typename T>
void put(const Products& products, int64_t first, int64_t count, const Tiles<T>& tiles) {
  AllPlaces<const T> values;
  for (size_t i = 0; i < kPlaces; ++i) values[i] = products[i].template const_data_ptr<T>();
  with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
    for (int64_t i = 0; i < count; ++i)
      transform<ToOutput, T>(places_of(values, i, tiles.channels), tiles.template square<2>(first + i, 0),
                             tiles.channels);
  });
}

int64_t tiles_in(const Tensor& images) {
  return images.size(0) * ((images.size(1) + 1) / 2) * ((images.size(2) + 1) / 2);
}

// How many tiles one product takes: all threads get some.
int64_t tiles_at_once(GemmKernel product, int64_t tiles) {
  const int64_t share = (tiles + at::get_num_threads() - 1) / at::get_num_threads();
  return product == GemmKernel::mm ? kLeastTilesAtOnce : std::clamp(share, kLeastTilesAtOnce, kMostTilesAtOnce);
}

// Calls work(begin, end) for blocks of `at_once` tiles on several threads, past autograd.
template <typename Work>
void for_tiles(int64_t tiles, int64_t at_once, const Work& work) {
  parallel_for(0, (tiles + at_once - 1) / at_once, 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView past_autograd;
    work(begin * at_once, std::min(tiles, end * at_once));
  });
}

// G of the paper for columns and rows at once: (16 places, 3 x 3).
Tensor to_places(const Tensor& like) {
  constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  const Tensor both = at::empty({kPlaces, 9}, at::kDouble);
  auto* values = both.mutable_data_ptr<double>();
  for (int i = 0; i < kPlaces * 9; ++i) values[i] = kG[i / 9 / 4][i % 9 / 3] * kG[i / 9 % 4][i % 3];
  return both.to(like.scalar_type());
}

// kernels (3, 3, n, k) -> (16, n, k).
Tensor at_places(const Tensor& kernels) {
  const int64_t out = kernels.size(2), in = kernels.size(3);
  return at::mm(to_places(kernels), kernels.reshape({9, out * in})).view({kPlaces, out, in});
}

// (b, h, w, k) with kernels (16, n, k) -> (b, h, w, n).
Tensor convolve(const Tensor& input, const Tensor& kernels, GemmKernel product) {
  const int64_t out = kernels.size(1), in = kernels.size(2), count = tiles_in(input),
                at_once = tiles_at_once(product, count);
  const Tensor output = at::empty({input.size(0), input.size(1), input.size(2), out}, input.options());
  const Tensor zero_pixel = at::zeros({in}, input.options());
  for_tiles(count, at_once, [&](int64_t begin, int64_t end) {
    const Tensor places = empty_places(at_once, in, input), dropped_pixel = at::empty({out}, input.options());
    AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "winograd_convolution", [&] {
      const Tiles<scalar_t> tiles{output.mutable_data_ptr<scalar_t>(), output.size(1), output.size(2), out,
                                  dropped_pixel.mutable_data_ptr<scalar_t>()};
      for (int64_t first = begin; first < end; first += at_once) {
        const Tensor some = places.narrow(1, 0, std::min(at_once, end - first));
        take<FromInput, scalar_t>(tiles_of<scalar_t>(input, zero_pixel), /*border=*/1, first, some);
        put<scalar_t>(multiply(product, some, kernels), first, some.size(1), tiles);
      }
    });
  });
  return output;
}

// sum (16, n, k) += grads^T places of (16, tiles, n) and (16, tiles, k)
void add_products(GemmKernel product, Tensor sum, const Tensor& grads, const Tensor& places) {
  if (product == GemmKernel::mm) {
    at::baddbmm_out(sum, sum, grads.transpose(1, 2), places);
    return;
  }
  for (int64_t i = 0; i < kPlaces; ++i) gemm_into(product, sum[i], grads[i].t(), places[i].t(), /*add=*/true);
}

}  // namespace

Tensor winograd_convolution(const Tensor& input, const Tensor& weight, GemmKernel product) {
  return convolve(input.contiguous(), at_places(weight.permute({1, 2, 0, 3})), product);
}

// Every input pixel sees the outputs around it through the kernel rotated by 180 degrees.
Tensor winograd_input_gradient(const Tensor& grad, const Tensor& weight, GemmKernel product) {
  return convolve(grad.contiguous(), at_places(weight.flip({1, 2}).permute({1, 2, 3, 0})), product);
}

Tensor winograd_weight_gradient(const Tensor& some_grad, const Tensor& some_input, GemmKernel product) {
  const Tensor grad = some_grad.contiguous(), input = some_input.contiguous();
  const int64_t in = input.size(3), out = grad.size(3), count = tiles_in(input),
                at_once = tiles_at_once(product, count);
  const Tensor sums = at::zeros({at::get_num_threads(), kPlaces, out, in}, input.options());  // one per thread
  const Tensor zero_pixel = at::zeros({std::max(in, out)}, input.options());
  for_tiles(count, at_once, [&](int64_t begin, int64_t end) {
    const Tensor places = empty_places(at_once, in, input), grads = empty_places(at_once, out, input);
    const Tensor sum = sums.select(0, at::get_thread_num());
    AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "winograd_weight_gradient", [&] {
      for (int64_t first = begin; first < end; first += at_once) {
        const int64_t tiles = std::min(at_once, end - first);
        const Tensor x = places.narrow(1, 0, tiles), g = grads.narrow(1, 0, tiles);
        take<FromInput, scalar_t>(tiles_of<scalar_t>(input, zero_pixel), /*border=*/1, first, x);
        take<FromOutputGradient, scalar_t>(tiles_of<scalar_t>(grad, zero_pixel), /*border=*/0, first, g);
        add_products(product, sum, g, x);
      }
    });
  });
  const Tensor kernels = at::mm(to_places(input).t(), sums.sum(0).view({kPlaces, out * in}));
  return kernels.view({3, 3, out, in}).permute({2, 0, 1, 3}).contiguous();
}

}  // namespace axonn
