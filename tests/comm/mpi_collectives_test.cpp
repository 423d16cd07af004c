#include <gtest/gtest.h>

#include "comm/collective_checks.hpp"
#include "comm/fused_checks.hpp"
#include "comm/produced/produced_checks.hpp"
#include "comm/programs/sliced_checks.hpp"
#include "comm/scattered/scattered_checks.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

class OverMpi : public testing::TestWithParam<CollectiveCheck> {};

TEST_P(OverMpi, Holds) {
  ASSERT_EQ(test_environment().transport(), "mpi");
  GetParam().run(test_environment());
}

const auto name_of = [](const testing::TestParamInfo<CollectiveCheck>& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Collectives, OverMpi, testing::ValuesIn(collective_checks()), name_of);
INSTANTIATE_TEST_SUITE_P(Produced, OverMpi, testing::ValuesIn(produced_checks()), name_of);
INSTANTIATE_TEST_SUITE_P(Fused, OverMpi, testing::ValuesIn(fused_checks()), name_of);
INSTANTIATE_TEST_SUITE_P(Sliced, OverMpi, testing::ValuesIn(sliced_checks()), name_of);
INSTANTIATE_TEST_SUITE_P(Scattered, OverMpi, testing::ValuesIn(scattered_checks()), name_of);

}  // namespace
}  // namespace axonn
