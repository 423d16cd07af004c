#include <cstdio>

#include <gtest/gtest.h>

#include "axonn/core/process_end.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::UnitTest::GetInstance()->total_test_count() == 0) {
    std::fprintf(stderr, "no test in this program\n");
    return 1;
  }
  axonn::end_process(RUN_ALL_TESTS());
}
