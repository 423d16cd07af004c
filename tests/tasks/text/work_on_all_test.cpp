#include "tasks/text/work_on_all.hpp"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

std::string no_words(int64_t) { return ""; }

TEST(WorkOnAll, EndsWhereAllHaveEnded) {
  Communicator& everyone = test_environment().world();
  int64_t bytes = 0;
  work_on_all(
      everyone,
      [&](TextEncoding::Progress& progress) {
        progress.bytes += everyone.rank();
        bytes = progress.bytes + 1;
        EXPECT_FALSE(progress.stop);
      },
      no_words);
  EXPECT_EQ(bytes, everyone.rank() + 1);
}

// The others would go on for long.
TEST(WorkOnAll, AnErrorOfOneRankStopsTheOthers) {
  Communicator& everyone = test_environment().world();
  const int failing = everyone.size() - 1;
  bool stopped = false;
  const auto work = [&](TextEncoding::Progress& progress) {
    AXONN_CHECK(everyone.rank() != failing, "test", "this rank cannot go on");
    const auto end = std::chrono::steady_clock::now() + 30s;
    for (; !stopped && std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(1ms))
      stopped = progress.stop;
  };
  EXPECT_USER_ERROR(work_on_all(everyone, work, no_words), "this rank cannot go on");
  EXPECT_EQ(stopped, everyone.rank() != failing);
}

}  // namespace
}  // namespace axonn
