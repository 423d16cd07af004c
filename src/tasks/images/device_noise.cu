#include "tasks/images/device_noise.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/philox.cuh"

namespace axonn {
namespace {

constexpr int kThreads = 256, kMostBlocks = 4096;

template <typename Element>
__global__ void fill(Element* out, DeviceNoise noise) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < noise.count; i += step) {
    const uint4 words = philox_words(noise.seed, static_cast<uint64_t>(noise.first + i), noise.stream);
    const uint64_t a = (uint64_t{words.x} << 32 | words.y) >> 11, b = (uint64_t{words.z} << 32 | words.w) >> 11;
    const double u = (static_cast<double>(a) + 1) * 0x1p-53, v = static_cast<double>(b) * 0x1p-53;
    out[i] = static_cast<Element>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }
}

}  // namespace

void fill_cuda_noise(void* out, c10::ScalarType type, const DeviceNoise& noise, int device) {
  if (noise.count == 0) return;
  const LaunchSize size{static_cast<unsigned>(std::min<int64_t>((noise.count + kThreads - 1) / kThreads, kMostBlocks)),
                        kThreads};
  if (type == c10::ScalarType::Double)
    launch("model.noise", device, size, fill<double>, static_cast<double*>(out), noise);
  else
    launch("model.noise", device, size, fill<float>, static_cast<float*>(out), noise);
}

}  // namespace axonn
