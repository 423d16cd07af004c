#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "comm/collective_checks.hpp"
#include "comm/fused_checks.hpp"
#include "comm/produced/produced_checks.hpp"
#include "comm/programs/sliced_checks.hpp"
#include "comm/scattered/scattered_checks.hpp"

namespace axonn {
namespace {

using Parameters = std::tuple<CollectiveCheck, int, std::string>;
class OnThreads : public testing::TestWithParam<Parameters> {};

TEST_P(OnThreads, Holds) {
  const auto& [check, ranks, path] = GetParam();
  setenv("AXONN_SHARED_MEMORY", path == "shared" ? "1" : "0", 1);
  run_local(ranks, check.run);
  unsetenv("AXONN_SHARED_MEMORY");
}

// Parts of 1 KiB: three messages in each of the rounds of distance 1 and 4, one in that of 16.
// Larger ones go around the ring.
TEST(SmallGathers, TakeTheLogarithmOfRounds) {
  constexpr int kRanks = 21;
  setenv("AXONN_SHARED_MEMORY", "0", 1);
  run_local(kRanks, [](Environment& environment) {
    for (const auto& [elements, messages] : {std::pair(256, 3 + 3 + 1), std::pair(257, kRanks - 1)}) {
      const at::Tensor own = at::full({elements}, environment.rank(), at::kInt);
      const at::Tensor all = at::empty({kRanks, elements}, at::kInt);
      Communicator& world = environment.world();
      const int64_t before = world.counters().messages;
      world.all_gather(own, all.view({-1})).wait();
      EXPECT_EQ(world.counters().messages - before, messages);
      for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(at::equal(all[rank], at::full_like(own, rank)));
    }
  });
  unsetenv("AXONN_SHARED_MEMORY");
}

std::string name_of(const testing::TestParamInfo<Parameters>& test) {
  const auto& [check, ranks, path] = test.param;
  return path + "_" + std::to_string(ranks) + "_" + check.name;
}

INSTANTIATE_TEST_SUITE_P(Collectives, OnThreads,
                         testing::Combine(testing::ValuesIn(collective_checks()), testing::Values(2, 3, 4, 5, 8),
                                          testing::Values("shared", "messages")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Produced, OnThreads,
                         testing::Combine(testing::ValuesIn(produced_checks()), testing::Values(1, 2, 3, 4, 8),
                                          testing::Values("shared", "messages")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Fused, OnThreads,
                         testing::Combine(testing::ValuesIn(fused_checks()), testing::Values(1, 2, 3, 4, 8),
                                          testing::Values("shared", "messages")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sliced, OnThreads,
                         testing::Combine(testing::ValuesIn(sliced_checks()), testing::Values(2, 3, 4, 6),
                                          testing::Values("shared", "messages")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Scattered, OnThreads,
                         testing::Combine(testing::ValuesIn(scattered_checks()), testing::Values(1, 2, 3, 4, 8),
                                          testing::Values("shared", "messages")),
                         name_of);

}  // namespace
}  // namespace axonn
