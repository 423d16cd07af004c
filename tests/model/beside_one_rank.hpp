#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/train/verification.hpp"
#include "support/rank_test.hpp"

// For tests that train a network on grids and on one rank.
namespace axonn::test {

inline void expect_within_tolerances(const Verification& verification, const std::string& what) {
  for (const Difference& difference : verification.differences)
    EXPECT_LE(difference.relative, difference.tolerance) << what << ": " << difference.what;
}

// Every rank calls it with the same arguments.
inline void expect_equals_one_rank(const MakeNetwork& make, const VerificationOptions& options,
                                   const std::vector<GridShape>& grids, const std::string& what) {
  Verifier verifier(test_environment(), options, make);
  for (const GridShape& grid : grids) expect_within_tolerances(verifier.on(grid), what + " on " + grid.to_string());
}

}  // namespace axonn::test
