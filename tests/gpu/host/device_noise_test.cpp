// The kernel, run on the host, gives the noise of the CPU.
#include "model/unet/device_noise.hpp"

#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"
#include "gpu/host/host_values.hpp"

namespace axonn {
namespace {

template <typename Element>
void expect_the_cpus(const DeviceNoise& noise) {
  for (const host_cuda::Order order : host_cuda::kOrders) {
    host_cuda::order = order;
    host_cuda::Values<Element> found(noise.count, 0);
    fill_cuda_noise(found.begin(), host_cuda::kType<Element>, noise, 0);
    for (int64_t i = 0; i < noise.count; ++i) {
      const double expected = to_normal(philox(noise.seed, static_cast<uint64_t>(noise.first + i), 0, noise.stream));
      ASSERT_EQ(found[i], static_cast<double>(static_cast<Element>(expected))) << i << " of " << noise.count;
    }
  }
}

TEST(DeviceNoise, EqualsTheCpus) {
  for (const int64_t count : {0, 1, 255, 1003}) {
    const DeviceNoise noise{
        .seed = 0x123456789abcdef0, .stream = 0xfedcba98, .first = int64_t{7} << 33, .count = count};
    expect_the_cpus<float>(noise);
    expect_the_cpus<double>(noise);
  }
}

TEST(DeviceNoise, EqualsTheCpusInMoreElementsThanThreads) {
  expect_the_cpus<float>({.seed = 3, .stream = 1, .count = 256 * 4096 + 77});
}

}  // namespace
}  // namespace axonn
