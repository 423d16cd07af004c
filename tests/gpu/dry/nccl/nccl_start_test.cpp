// How NCCL's communicators begin, by the version of its library (DRY_GPU_NCCL). The dry GPU does
// not catch up with the host here, and its NCCL refuses a split while something is under way.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Communicators that a function of NCCL has made.
int made_by(const char* function) {
  const auto count = reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "dry_communicators_by"));
  return count != nullptr ? count(function) : -1;
}

// All ranks sum something at every priority, and do not wait for it.
void sum_at_all_priorities(int ranks) {
  run_local(ranks, [](Environment& environment) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(environment.rank()));
    const auto all = environment.communicator(environment.world().group(), "all", device);
    const at::Tensor data = at::empty({1000}, at::TensorOptions().device(device));
    for (const Priority priority : {Priority::low, Priority::high, Priority::normal})
      all->all_reduce(data, ReduceOp::sum, {.priority = priority});
  });
}

TEST(NcclStart, SplitsTheFirstCommunicatorOfAGroup) {
  sum_at_all_priorities(2);
  EXPECT_EQ(made_by("ncclCommInitRank"), 2);
  EXPECT_EQ(made_by("ncclCommSplit"), 4);
}

// Rank 0 sends, and rank 1 calls for it after the sum.
TEST(NcclStart, DoesNotWaitForAMessage) {
  run_local(2, [](Environment& environment) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(environment.rank()));
    const auto pair = environment.communicator(environment.world().group(), "pair", device);
    const at::Tensor data = at::empty({1000}, at::TensorOptions().device(device));
    pair->all_reduce(data);
    if (environment.rank() == 0) pair->send(data, 1);
    pair->all_reduce(data, ReduceOp::sum, {.priority = Priority::low});
    if (environment.rank() == 1) pair->receive(data, 0);
  });
  EXPECT_EQ(made_by("ncclCommInitRank"), 4);
  EXPECT_EQ(made_by("ncclCommSplit"), 0);
}

// One rank's split fails, and so the job; the other one's never returns.
TEST(NcclStart, LeavesACommunicatorAloneWhileItIsSplit) {
  EXPECT_THROW(sum_at_all_priorities(2), BackendError);
  EXPECT_EQ(made_by("ncclCommInitRank"), 2);
  EXPECT_EQ(made_by("ncclCommSplit"), 0);
  EXPECT_EQ(made_by("an end while it is split"), 0);
}

TEST(NcclStart, HasARootForEachTwoRanks) {
  sum_at_all_priorities(5);
  EXPECT_EQ(made_by("ncclCommInitRankScalable 3"), 5);
  EXPECT_EQ(made_by("ncclCommInitRank"), 0);
  EXPECT_EQ(made_by("ncclCommSplit"), 10);
}

TEST(NcclStart, OfAnOlderLibraryHasOneRootAndNoSplit) {
  sum_at_all_priorities(5);
  EXPECT_EQ(made_by("ncclCommInitRank"), 15);
  EXPECT_EQ(made_by("ncclCommSplit"), 0);
}

}  // namespace
}  // namespace axonn
