#include "coconet/stages/chain_runs.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace axonn::coconet::test {
namespace {

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

std::vector<InstructionSet> all_sets() {
  std::vector<InstructionSet> sets;
  for (const auto& each : Names<InstructionSet>::all)
    if (runs_here(each.value)) sets.push_back(each.value);
  return sets;
}

std::vector<std::byte> random_elements(ElementType type, int64_t count, uint64_t seed) {
  constexpr double special[] = {0,
                                -0.0,
                                1,
                                -1,
                                2,
                                0.5,
                                1e-310,
                                -1e-42,
                                0x1p-24,
                                0x1p-25,
                                0x1.8p-25,
                                65504,
                                65519.99,
                                65520,
                                0x1.01p0,
                                0x1.03p0,
                                0x1.002p0,
                                0x1.006p0,
                                3e38,
                                -3.4e38,
                                1e300,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::byte> bytes(static_cast<size_t>(count * bytes_of(type)));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* to = bytes.data() + i * bytes_of(type);
    const uint64_t word = random();
    if (word % 8 == 0)
      std::memcpy(to, &word, static_cast<size_t>(bytes_of(type)));
    else
      encode(to, word % 8 == 1 ? special[word / 8 % std::size(special)] : normal(random), type);
  }
  return bytes;
}

OracleResult run_chain(const StageChain& chain, const PointwiseKernel& kernel, const OracleInputs& inputs) {
  constexpr std::byte kGuard{0x5a};
  constexpr size_t kBefore = 7, kBehind = 64;
  OracleResult result;
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> streams;
  for (const std::vector<std::byte>& each : inputs.streams) {
    memory.emplace_back(each.size() + kBefore + kBehind, kGuard);
    std::ranges::copy(each, memory.back().begin() + kBefore);
  }
  for (std::vector<std::byte>& each : memory) streams.push_back(each.data() + kBefore);
  std::vector<double*> partials;
  result.partials.assign(kernel.reductions().size(),
                         std::vector<double>(static_cast<size_t>(StageChain::num_partials(inputs.count))));
  for (std::vector<double>& each : result.partials) partials.push_back(each.data());
  chain.run({.count = inputs.count,
             .streams = streams,
             .scalars = inputs.scalars,
             .range_values = inputs.range_values,
             .masks = inputs.masks,
             .partials = partials});
  for (size_t s = 0; s < memory.size(); ++s) {
    const size_t size = inputs.streams[s].size();
    result.streams.emplace_back(memory[s].begin() + kBefore, memory[s].begin() + static_cast<int64_t>(kBefore + size));
    for (size_t i = 0; i < kBefore; ++i) EXPECT_EQ(memory[s][i], kGuard) << "before stream " << s;
    for (size_t i = kBefore + size; i < memory[s].size(); ++i) EXPECT_EQ(memory[s][i], kGuard) << "behind stream " << s;
  }
  return result;
}

void expect_same(const PointwiseKernel& kernel, const OracleResult& got, const OracleResult& need) {
  for (size_t s = 0; s < need.streams.size(); ++s) {
    const auto& [name, type, loaded, stored] = kernel.streams()[s];
    for (size_t i = 0; i < need.streams[s].size(); i += static_cast<size_t>(bytes_of(type))) {
      const double a = decode(got.streams[s].data() + i, type), b = decode(need.streams[s].data() + i, type);
      ASSERT_TRUE(same(a, b)) << "stream " << name << " (" << to_string(type) << "), element "
                              << i / static_cast<size_t>(bytes_of(type)) << ": got " << a << ", need " << b;
    }
  }
  for (size_t r = 0; r < need.partials.size(); ++r)
    for (size_t i = 0; i < need.partials[r].size(); ++i)
      ASSERT_TRUE(same(got.partials[r][i], need.partials[r][i]))
          << "reduction " << r << ", block " << i << ": got " << got.partials[r][i] << ", need " << need.partials[r][i];
}

}  // namespace axonn::coconet::test
