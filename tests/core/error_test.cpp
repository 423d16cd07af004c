#include "axonn/core/error.hpp"

#include <cstdio>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "axonn/core/version.hpp"

namespace axonn {
namespace {

TEST(Check, ThrowsASentenceWithItsValues) {
  try {
    AXONN_CHECK(3 % 2 == 0, "model.gpt", "heads must divide by axis x, got ", 3, " heads and x = ", 2);
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.where(), "model.gpt");
    EXPECT_EQ(error.sentence(), "heads must divide by axis x, got 3 heads and x = 2");
    EXPECT_STREQ(error.what(), "[model.gpt] heads must divide by axis x, got 3 heads and x = 2");
  }
}

TEST(Check, EvaluatesItsPartsOnlyWhenItFails) {
  int evaluated = 0;
  AXONN_CHECK(true, "core.test", ++evaluated);
  AXONN_ASSERT(true, ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST(Assert, ThrowsInReleaseBuildsTooAndSaysWhere) {
  try {
    AXONN_ASSERT(1 + 1 == 3, "with ", 42);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    EXPECT_NE(error.where().find("error_test.cpp:"), std::string::npos);
    EXPECT_EQ(error.sentence(), "broken promise '1 + 1 == 3' with 42");
  }
}

TEST(Errors, AreToldApartAndCaughtTogether) {
  EXPECT_THROW(throw BackendError("comm.mpi", "no"), Error);
  EXPECT_THROW(throw UserError("comm.mpi", "no"), std::runtime_error);
  EXPECT_FALSE((std::is_base_of_v<UserError, BackendError>));
}

TEST(Version, IsThreeNumbers) {
  int a = -1, b = -1, c = -1;
  EXPECT_EQ(std::sscanf(std::string(version()).c_str(), "%d.%d.%d", &a, &b, &c), 3);
}

}  // namespace
}  // namespace axonn
