#include <cstdlib>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "comm/collective_checks.hpp"

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

INSTANTIATE_TEST_SUITE_P(Collectives, OnThreads,
                         testing::Combine(testing::ValuesIn(collective_checks()), testing::Values(2, 3, 4, 5, 8),
                                          testing::Values("shared", "messages")),
                         [](const auto& test) {
                           return std::get<2>(test.param) + "_" + std::to_string(std::get<1>(test.param)) + "_" +
                                  std::get<0>(test.param).name;
                         });

}  // namespace
}  // namespace axonn
