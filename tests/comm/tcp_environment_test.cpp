#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "comm/fused_checks.hpp"
#include "comm/produced/produced_checks.hpp"
#include "comm/programs/sliced_checks.hpp"
#include "comm/scattered/scattered_checks.hpp"

namespace axonn {
namespace {

constexpr int kNamesRank2 = 9;
constexpr int kOtherError = 8;

// Runs `body` in processes that find each other by environment variables, after `before` with the
// rank. Returns their exit statuses (128 + signal).
std::vector<int> in_processes(
    int ranks, const std::function<int(Environment&)>& body, const std::function<void(int)>& before = [](int) {}) {
  const std::string port = std::to_string(20000 + ::getpid() % 10000);  // below the ports that the system hands out
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    ::setenv("MASTER_ADDR", "localhost", 1);
    ::setenv("MASTER_PORT", port.c_str(), 1);
    try {
      before(rank);
      int status = 0;
      {
        Environment environment;
        status = body(environment);
      }
      ::_exit(status);
    } catch (const Error& error) {
      ::_exit(error.sentence().find("rank 2") != std::string::npos ? kNamesRank2 : kOtherError);
    }
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return statuses;
}

TEST(TcpEnvironment, ProcessesToldByVariablesAreOneJob) {
  const auto statuses = in_processes(3, [](Environment& environment) {
    const auto data = at::full({100'003}, environment.rank() + 1, at::kDouble);
    environment.world().all_reduce(data).wait();
    const bool right =
        environment.transport() == "tcp" && environment.ranks() == 3 && at::equal(data, at::full_like(data, 6));
    return right ? 0 : 1;
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST(TcpEnvironment, ProcessWithAnotherSecretDoesNotJoin) {
  const auto first_with_another = [](int rank) {
    ::setenv("AXONN_SECRET", "open sesame", 1);
    if (rank != 1) return;
    ::setenv("AXONN_SECRET", "open barley", 1);
    EXPECT_THROW(Environment(), UserError);
    ::setenv("AXONN_SECRET", "open sesame", 1);
  };
  const auto statuses =
      in_processes(2, [](Environment&) { return testing::Test::HasFailure() ? 1 : 0; }, first_with_another);
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

TEST(TcpEnvironment, FusedCollectivesHold) {
  const auto statuses = in_processes(3, [](Environment& environment) {
    for (const CollectiveCheck& check : fused_checks()) check.run(environment);
    for (const CollectiveCheck& check : scattered_checks()) check.run(environment);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST(TcpEnvironment, CollectivesOfUnfinishedContributionsAndSlicedTransfersHold) {
  for (const int ranks : {2, 3, 4}) {
    const auto statuses = in_processes(ranks, [](Environment& environment) {
      for (const CollectiveCheck& check : produced_checks()) check.run(environment);
      for (const CollectiveCheck& check : sliced_checks()) check.run(environment);
      return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(ranks), 0));
  }
}

// The others still write their parts, and meet the error in their wait.
TEST(TcpEnvironment, RankThatIsKilledWhileItProducesEndsTheOthers) {
  const auto statuses = in_processes(3, [](Environment& environment) {
    const auto data = at::full({300'000}, 1, at::kDouble);
    Production production(std::make_shared<ProducerCounter>(), {environment.world().group(), 300'000, 8, 20'000});
    const Request sum = environment.world().all_reduce(data, ReduceOp::sum, {.production = &production});
    for (int64_t part = 0; part < production.parts().size(); ++part) {
      if (environment.rank() == 2 && part == 3) ::raise(SIGKILL);
      production.release();
    }
    sum.wait();
    return 0;
  });
  EXPECT_EQ(statuses[2], 128 + SIGKILL);
  for (const int rank : {0, 1})
    EXPECT_TRUE(statuses[rank] == kNamesRank2 || statuses[rank] == kOtherError) << statuses[rank];
}

TEST(TcpEnvironment, RankThatIsKilledEndsTheOthersWithItsNumber) {
  const auto statuses = in_processes(3, [](Environment& environment) {
    const auto data = at::full({100'003}, 1, at::kDouble);
    environment.world().all_reduce(data).wait();
    if (environment.rank() == 2) ::raise(SIGKILL);
    environment.world().all_reduce(data).wait();
    return 0;
  });
  EXPECT_EQ(statuses[2], 128 + SIGKILL);
  // The rank that notices first may be the one that the other rank names.
  for (const int rank : {0, 1})
    EXPECT_TRUE(statuses[rank] == kNamesRank2 || statuses[rank] == kOtherError) << statuses[rank];
  EXPECT_TRUE(statuses[0] == kNamesRank2 || statuses[1] == kNamesRank2) << statuses[0] << ' ' << statuses[1];
}

// Rank 0 computes and calls nothing; nothing is outstanding.
TEST(TcpEnvironment, RankWhoseProgramDoesNotComeBackEndsWhenAnotherIsKilled) {
  const auto statuses = in_processes(3, [](Environment& environment) {
    environment.world().barrier().wait();
    if (environment.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the others leave the barrier first
      ::raise(SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  EXPECT_EQ(statuses, (std::vector<int>{1, 1, 128 + SIGKILL}));
}

}  // namespace
}  // namespace axonn
