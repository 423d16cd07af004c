#include <gtest/gtest.h>

#include "comm/collective_checks.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

class OverMpi : public testing::TestWithParam<CollectiveCheck> {};

TEST_P(OverMpi, Holds) {
  ASSERT_EQ(test_environment().transport(), "mpi");
  GetParam().run(test_environment());
}

INSTANTIATE_TEST_SUITE_P(Collectives, OverMpi, testing::ValuesIn(collective_checks()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace axonn
