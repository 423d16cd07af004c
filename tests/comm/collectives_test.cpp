#include <gtest/gtest.h>

#include "comm/collective_checks.hpp"

namespace axonn {
namespace {

using Parameters = std::tuple<CollectiveCheck, int>;
class OnThreads : public testing::TestWithParam<Parameters> {};

TEST_P(OnThreads, Holds) {
  const auto& [check, ranks] = GetParam();
  run_local(ranks, check.run);
}

INSTANTIATE_TEST_SUITE_P(Collectives, OnThreads, testing::Combine(testing::ValuesIn(collective_checks()), testing::Values(2, 3, 4, 5, 8)),
                         [](const auto& test) { return std::string(std::get<0>(test.param).name) + "_" + std::to_string(std::get<1>(test.param)); });

}  // namespace
}  // namespace axonn
