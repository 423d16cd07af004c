// The kernel gives the noise of the CPU.
#include "tasks/images/device_noise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "axonn/core/philox.hpp"
#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"

namespace axonn {
namespace {

using namespace kernel_test;

template <typename Element>
void expect_the_cpus(const DeviceNoise& noise, const Runs& runs = {.on_device = 1}) {
  const Case named("fill_cuda_noise of " + std::to_string(noise.count) + " numbers, " + kName<Element>);
  in_each_order(runs, [&] {
    Values<Element> found("noise", noise.count, all(9));
    fill_cuda_noise(found.out(), kType<Element>, noise, 0);
    compare([&] {
      for (int64_t i = 0; i < noise.count; ++i) {
        const double expected = to_normal(philox(noise.seed, static_cast<uint64_t>(noise.first + i), 0, noise.stream));
        // A device rounds log() and cos() otherwise, to 2 units each.
        const double allowed = std::max(kRounding<Element>, 12e-16) * std::abs(expected);
        ASSERT_NEAR(found[i], expected, allowed) << "number " << i;
      }
    });
  });
}

TEST(DeviceNoise, EqualsTheCpus) {
  for (const int64_t count : {0, 1, 255, 1003}) {
    const DeviceNoise noise{
        .seed = 0x123456789abcdef0, .stream = 0xfedcba98, .first = int64_t{7} << 33, .count = count};
    expect_the_cpus<float>(noise);
    expect_the_cpus<double>(noise);
  }
}

// More elements than threads.
TEST(DeviceNoiseLarge, EqualsTheCpus) {
  expect_the_cpus<float>({.seed = 3, .stream = 1, .count = 256 * 4096 + 77}, kLarge);
}

}  // namespace
}  // namespace axonn
