#include <cstdlib>
#include <string>
#include <tuple>

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
