#include "kernels/gpu/group_norm_images.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "axonn/core/error.hpp"
#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

constexpr int kWarp = 32, kThreads = 512;
constexpr int64_t kLeastChannels = 32;  // in a slab: in bf16 two sectors of memory per pixel

// A block takes a slab of an image: all pixels of some whole groups.
struct Slabs {
  int64_t channels;  // in a slab; the last one of an image may have fewer
  int64_t count;     // slabs of an image
};

Slabs slabs_of(int64_t channels, int64_t groups, int64_t size) {
  const int64_t step = std::lcm(channels / groups, size);
  const int64_t slab = std::min((kLeastChannels + step - 1) / step * step, channels);
  return {slab, (channels + slab - 1) / slab};
}

// A thread takes one pack of channels at every rows-th pixel.
struct Place {
  __device__ Place(const NormedImages& images, const Slabs& slabs, int size)
      : image(blockIdx.x / slabs.count),
        packs(static_cast<int>(slabs.channels / size)),
        rows(static_cast<int>(blockDim.x) / packs),
        row(static_cast<int>(threadIdx.x) / packs),
        in_slab(int64_t{static_cast<int>(threadIdx.x) % packs} * size),
        channel(blockIdx.x % slabs.count * slabs.channels + in_slab),
        here(row < rows && channel < images.channels) {}

  int64_t image;
  int packs, rows, row;
  int64_t in_slab, channel;  // the first of this thread, in the slab and in the image
  bool here;                 // whether it has channels
};

// Sums over the block's rows of threads. All threads call it, each with its channels' values, and
// may then read the sum of every channel by of_channel() until the next barrier.
template <int size, typename Number>
__device__ void sum_rows(Number* memory, const Place& place, const Number (&mine)[size]) {
  for (int i = 0; i < size; ++i) memory[i * kThreads + threadIdx.x] = mine[i];
  for (int left = place.rows, half = 0; left > 1; left = half) {
    half = (left + 1) / 2;
    __syncthreads();
    if (place.row + half < left)
      for (int i = 0; i < size; ++i)
        memory[i * kThreads + threadIdx.x] += memory[i * kThreads + threadIdx.x + half * place.packs];
  }
  __syncthreads();
}

template <int size, typename Number>
__device__ Number& of_channel(Number* memory, int64_t in_slab) {
  return memory[in_slab % size * kThreads + in_slab / size];
}

// The sum of the `width` channels of the group of channel `in_slab`.
template <int size, typename Number>
__device__ Number of_group(Number* memory, int64_t in_slab, int64_t width) {
  const int64_t begin = in_slab / width * width;
  Number sum{};
  for (int64_t i = begin; i < begin + width; ++i) sum += of_channel<size>(memory, i);
  return sum;
}

// Maps the normalised values of this thread's channels: z = value * factor + offset, then SiLU.
template <typename Element, int size>
struct Affine {
  using Number = Wide<Element>;

  __device__ Affine(const NormedImages& images, const Place& place) {
    if (!place.here) return;
    const auto number = [](const void* begin, int64_t at) {
      return static_cast<Number>(static_cast<const Element*>(begin)[at]);
    };
    for (int i = 0; i < size; ++i) {
      const int64_t channel = place.channel + i, at = place.image * 2 * images.channels + channel;
      weight[i] = number(images.weight, channel);
      bias[i] = number(images.bias, channel);
      if (images.scale_and_shift == nullptr) continue;
      scale[i] = 1 + number(images.scale_and_shift, at);
      shift[i] = number(images.scale_and_shift, at + images.channels);
    }
    for (int i = 0; i < size; ++i) {
      if (images.scale_and_shift == nullptr) scale[i] = 1;
      factor[i] = weight[i] * scale[i];
      offset[i] = bias[i] * scale[i] + shift[i];
    }
  }

  Number weight[size] = {}, bias[size] = {}, scale[size] = {}, shift[size] = {}, factor[size] = {}, offset[size] = {};
};

template <typename Number>
__device__ Number sigmoid(Number z) {
  return 1 / (1 + std::exp(-z));
}

template <typename Element, int size>
__device__ Pack<Element, size> load(const void* begin, int64_t at) {
  return *reinterpret_cast<const Pack<Element, size>*>(static_cast<const Element*>(begin) + at);
}

// pass(at) for each pack of this thread.
template <int size, typename Pass>
__device__ void for_packs(const NormedImages& images, const Place& place, const Pass& pass) {
  if (!place.here) return;
  for (int64_t pixel = place.row; pixel < images.pixels; pixel += place.rows)
    pass((place.image * images.pixels + pixel) * images.channels + place.channel);
}

// Variances are sums of squared distances from means, because sums of squares cancel.
template <typename Element, int size>
__global__ void __launch_bounds__(kThreads) forward(NormedImages images, Slabs slabs, Element* output) {
  using Number = Wide<Element>;
  __shared__ Number memory[kThreads * size];
  const Place place(images, slabs, size);
  const int64_t width = images.channels / images.groups;
  const auto count = static_cast<Number>(images.pixels * width);
  Number sums[size] = {}, mean[size], reciprocal_deviation[size];
  for_packs<size>(images, place, [&](int64_t at) {
    const auto inputs = load<Element, size>(images.input, at);
    for (int i = 0; i < size; ++i) sums[i] += static_cast<Number>(inputs.element[i]);
  });
  sum_rows(memory, place, sums);
  for (int i = 0; i < size; ++i) {
    mean[i] = of_group<size>(memory, place.in_slab + i, width) / count;
    sums[i] = 0;
  }
  __syncthreads();
  for_packs<size>(images, place, [&](int64_t at) {
    const auto inputs = load<Element, size>(images.input, at);
    for (int i = 0; i < size; ++i) {
      const Number distance = static_cast<Number>(inputs.element[i]) - mean[i];
      sums[i] += distance * distance;
    }
  });
  sum_rows(memory, place, sums);
  for (int i = 0; i < size; ++i) {
    const Number variance = of_group<size>(memory, place.in_slab + i, width) / count;
    reciprocal_deviation[i] = 1 / std::sqrt(variance + static_cast<Number>(images.epsilon));
    if (!place.here || place.row > 0 || (place.channel + i) % width != 0) continue;
    const int64_t group = place.image * images.groups + (place.channel + i) / width;
    static_cast<Number*>(images.mean)[group] = mean[i];
    static_cast<Number*>(images.reciprocal_deviation)[group] = reciprocal_deviation[i];
  }
  const Affine<Element, size> affine(images, place);
  for_packs<size>(images, place, [&](int64_t at) {
    const auto inputs = load<Element, size>(images.input, at);
    Pack<Element, size> result;
    for (int i = 0; i < size; ++i) {
      const Number normalised = (static_cast<Number>(inputs.element[i]) - mean[i]) * reciprocal_deviation[i];
      const Number z = normalised * affine.factor[i] + affine.offset[i];
      result.element[i] = static_cast<Element>(images.silu ? z * sigmoid(z) : z);
    }
    *reinterpret_cast<Pack<Element, size>*>(output + at) = result;
  });
}

// Of the gradient of z, and of its products with the normalised values.
template <typename Number>
struct Sums {
  Number gradient, product;
  __device__ Sums& operator+=(const Sums& other) {
    gradient += other.gradient;
    product += other.product;
    return *this;
  }
};

template <typename Element, int size>
__global__ void __launch_bounds__(kThreads)
    backward(NormedImages images, Slabs slabs, const Element* grad, Element* grad_input, Element* grad_scale_and_shift,
             Wide<Element>* parts) {
  using Number = Wide<Element>;
  __shared__ Sums<Number> memory[kThreads * size];
  const Place place(images, slabs, size);
  const int64_t width = images.channels / images.groups;
  const auto count = static_cast<Number>(images.pixels * width);
  const Affine<Element, size> affine(images, place);
  Number mean[size] = {}, reciprocal_deviation[size] = {};
  if (place.here)
    for (int i = 0; i < size; ++i) {
      const int64_t group = place.image * images.groups + (place.channel + i) / width;
      mean[i] = static_cast<const Number*>(images.mean)[group];
      reciprocal_deviation[i] = static_cast<const Number*>(images.reciprocal_deviation)[group];
    }
  // pass(i, normalised value, gradient of z) for each number of a pack.
  const auto for_numbers = [&](int64_t at, const auto& pass) {
    const auto inputs = load<Element, size>(images.input, at), grads = load<Element, size>(grad, at);
    for (int i = 0; i < size; ++i) {
      const Number normalised = (static_cast<Number>(inputs.element[i]) - mean[i]) * reciprocal_deviation[i];
      Number gradient = static_cast<Number>(grads.element[i]);
      if (images.silu) {
        const Number z = normalised * affine.factor[i] + affine.offset[i], part = sigmoid(z);
        gradient *= part * (1 + z * (1 - part));
      }
      pass(i, normalised, gradient);
    }
  };
  Sums<Number> sums[size] = {};
  for_packs<size>(images, place, [&](int64_t at) {
    for_numbers(at, [&](int i, Number normalised, Number gradient) {
      sums[i].gradient += gradient;
      sums[i].product += gradient * normalised;
    });
  });
  sum_rows(memory, place, sums);
  // The first row turns the sums over the pixels into those of the groups' terms.
  if (place.here && place.row == 0)
    for (int i = 0; i < size; ++i) {
      Sums<Number>& sum = of_channel<size>(memory, place.in_slab + i);
      const int64_t at = place.image * 2 * images.channels + place.channel + i;
      parts[at] = affine.scale[i] * sum.product;
      parts[at + images.channels] = affine.scale[i] * sum.gradient;
      if (grad_scale_and_shift != nullptr) {
        grad_scale_and_shift[at] = static_cast<Element>(affine.weight[i] * sum.product + affine.bias[i] * sum.gradient);
        grad_scale_and_shift[at + images.channels] = static_cast<Element>(sum.gradient);
      }
      sum = {affine.factor[i] * sum.gradient, affine.factor[i] * sum.product};
    }
  __syncthreads();
  for (int i = 0; i < size; ++i) sums[i] = of_group<size>(memory, place.in_slab + i, width);
  for_packs<size>(images, place, [&](int64_t at) {
    Pack<Element, size> result;
    for_numbers(at, [&](int i, Number normalised, Number gradient) {
      const Number mean_term = (sums[i].gradient + normalised * sums[i].product) / count;
      result.element[i] = static_cast<Element>(reciprocal_deviation[i] * (affine.factor[i] * gradient - mean_term));
    });
    *reinterpret_cast<Pack<Element, size>*>(grad_input + at) = result;
  });
}

// A block of whole warps, and of no more rows than pixels.
LaunchSize size_for(const NormedImages& images, const Slabs& slabs, int64_t size) {
  const int64_t packs = slabs.channels / size;
  AXONN_ASSERT(packs <= kThreads, "groups of ", images.channels / images.groups,
               " channels do not fit, or do not begin at ", kPackBytes, " bytes");
  const int64_t threads = std::min<int64_t>((packs * images.pixels + kWarp - 1) / kWarp * kWarp, kThreads);
  return {static_cast<unsigned>(images.images * slabs.count), static_cast<unsigned>(threads)};
}

}  // namespace

bool group_norm_images_fit(c10::ScalarType type, int64_t channels, int64_t groups) {
  if (channels == 0) return false;
  bool fits = false;
  dispatch(type, channels, {}, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    fits = slabs_of(channels, groups, size).channels <= int64_t{kThreads} * size;
  });
  return fits;
}

void group_norm_forward(const NormedImages& images, void* output, int device) {
  if (images.images * images.pixels == 0) return;
  dispatch(images.type, images.channels, {images.input, output},
           [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
             const Slabs slabs = slabs_of(images.channels, images.groups, size);
             launch("layers.group_norm", device, size_for(images, slabs, size), forward<Element, size>, images, slabs,
                    static_cast<Element*>(output));
           });
}

void group_norm_backward(const NormedImages& images, const void* grad, void* grad_input, void* grad_scale_and_shift,
                         void* parts, int device) {
  if (images.images * images.pixels == 0) return;
  dispatch(images.type, images.channels, {images.input, grad, static_cast<const void*>(grad_input)},
           [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
             const Slabs slabs = slabs_of(images.channels, images.groups, size);
             launch("layers.group_norm", device, size_for(images, slabs, size), backward<Element, size>, images, slabs,
                    static_cast<const Element*>(grad), static_cast<Element*>(grad_input),
                    static_cast<Element*>(grad_scale_and_shift), static_cast<Wide<Element>*>(parts));
           });
}

}  // namespace axonn
