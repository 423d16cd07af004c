// The collectives of communicator.hpp over NCCL. Values are small integers, so every order of
// additions gives the same bits.
#include <gtest/gtest.h>

#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

Group everybody() {
  Environment& environment = test_environment();
  Group group{
      .axes = {}, .ranks = std::vector<int>(static_cast<size_t>(environment.ranks())), .index = environment.rank()};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

at::Tensor contribution(int rank, int64_t elements, at::ScalarType dtype) {
  return at::arange(elements, at::TensorOptions().dtype(at::kLong).device(kGpu))
      .mul_(7)
      .add_(5 * rank)
      .remainder_(13)
      .add_(rank)
      .to(dtype);
}

at::Tensor reduced(int ranks, int64_t elements, at::ScalarType dtype, ReduceOp op) {
  at::Tensor result = contribution(0, elements, dtype);
  for (int rank = 1; rank < ranks; ++rank) {
    const at::Tensor other = contribution(rank, elements, dtype);
    result = op == ReduceOp::sum   ? result.add(other)
             : op == ReduceOp::max ? result.maximum(other)
                                   : result.minimum(other);
  }
  return result;
}

class NcclCollectives : public testing::Test {
 protected:
  void SetUp() override { world_ = test_environment().communicator(everybody(), "world", kGpu); }
  Communicator& world() { return *world_; }

  std::vector<int64_t> uneven(int64_t scale) {
    std::vector<int64_t> counts;
    for (int rank = 0; rank < world().size(); ++rank) counts.push_back(rank % 3 == 1 ? 0 : scale * (rank + 1) + rank);
    return counts;
  }
  int64_t sum(const std::vector<int64_t>& counts, int end) {
    return std::accumulate(counts.begin(), counts.begin() + end, int64_t{0});
  }
  int64_t own(const std::vector<int64_t>& counts) { return counts[static_cast<size_t>(world().rank())]; }

 private:
  std::unique_ptr<Communicator> world_;
};

TEST_F(NcclCollectives, AllReduceOfEveryDtypeAndOperation) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte})
    for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (const int64_t elements : {0, 1, 1000, 70001}) {
        const at::Tensor data = contribution(world().rank(), elements, dtype);
        world().all_reduce(data, op).wait();
        EXPECT_TRUE(data.equal(reduced(world().size(), elements, dtype, op)))
            << c10::toString(dtype) << " x " << elements;
      }
}

TEST_F(NcclCollectives, ReduceScatterOfEqualAndUnevenParts) {
  for (const int64_t scale : {1, 20000})
    for (const bool equal : {true, false}) {
      const auto counts = equal ? std::vector<int64_t>(static_cast<size_t>(world().size()), scale) : uneven(scale);
      const int64_t begin = sum(counts, world().rank()), all = sum(counts, world().size());
      const at::Tensor input = contribution(world().rank(), all, at::kFloat);
      const at::Tensor expected = reduced(world().size(), all, at::kFloat, ReduceOp::sum).narrow(0, begin, own(counts));
      const at::Tensor apart = at::empty({own(counts)}, input.options()), within = input.narrow(0, begin, own(counts));
      world().reduce_scatter(input.clone(), apart, equal ? std::span<const int64_t>() : counts).wait();
      EXPECT_TRUE(apart.equal(expected)) << "scale " << scale << (equal ? ", equal" : ", uneven");
      world().reduce_scatter(input, within, counts).wait();
      EXPECT_TRUE(within.equal(expected)) << "in place, scale " << scale;
    }
}

TEST_F(NcclCollectives, AllGatherOfEqualAndUnevenParts) {
  for (const int64_t scale : {1, 20000})
    for (const bool equal : {true, false}) {
      const auto counts = equal ? std::vector<int64_t>(static_cast<size_t>(world().size()), scale) : uneven(scale);
      const int64_t begin = sum(counts, world().rank()), all = sum(counts, world().size());
      const at::Tensor expected = contribution(3, all, at::kDouble);
      const at::Tensor output = at::full({all}, 99, expected.options());
      world()
          .all_gather(expected.narrow(0, begin, own(counts)).clone(), output,
                      equal ? std::span<const int64_t>() : counts)
          .wait();
      EXPECT_TRUE(output.equal(expected)) << "scale " << scale << (equal ? ", equal" : ", uneven");
    }
}

TEST_F(NcclCollectives, BroadcastAndReduceFromEveryRoot) {
  for (int root = 0; root < world().size(); ++root) {
    at::Tensor data = contribution(world().rank(), 1001, at::kInt);
    world().broadcast(data, root).wait();
    EXPECT_TRUE(data.equal(contribution(root, 1001, at::kInt))) << root;
    data = contribution(world().rank(), 1001, at::kFloat);
    world().reduce(data, root, ReduceOp::max).wait();
    EXPECT_TRUE(world().rank() != root || data.equal(reduced(world().size(), 1001, at::kFloat, ReduceOp::max))) << root;
  }
}

TEST_F(NcclCollectives, NeighboursMayBothSendFirst) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has no neighbour";
  const int next = (world().rank() + 1) % world().size(),
            previous = (world().rank() + world().size() - 1) % world().size();
  for (const int64_t elements : {0, 1, 5'000'000}) {
    const Request sent = world().send(contribution(world().rank(), elements, at::kFloat), next);
    const at::Tensor incoming = at::zeros({elements}, at::TensorOptions().dtype(at::kFloat).device(kGpu));
    world().receive(incoming, previous).wait();
    sent.wait();
    EXPECT_TRUE(incoming.equal(contribution(previous, elements, at::kFloat))) << elements;
  }
}

TEST_F(NcclCollectives, AMessageThatNobodyWaitsForArrives) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has no neighbour";
  if (world().rank() == 0) world().send(contribution(0, 1000, at::kFloat), 1);
  if (world().rank() == 1) {
    const at::Tensor incoming = at::zeros({1000}, at::TensorOptions().dtype(at::kFloat).device(kGpu));
    world().receive(incoming, 0).wait();
    EXPECT_TRUE(incoming.equal(contribution(0, 1000, at::kFloat)));
  }
  world().barrier().wait();
}

// No request makes the host wait here. Only the device orders the products, the collectives on two
// queues and the reads of their results.
TEST_F(NcclCollectives, ComputeStreamAndQueuesKeepTheirOrder) {
  const auto options = at::TensorOptions().dtype(at::kDouble).device(kGpu);
  const double expected = world().size() * (world().size() + 1) / 2.0;
  for (int round = 0; round < 20; ++round) {
    at::Tensor data = at::full({1 << 20}, 0.5, options);
    for (int i = 0; i < 10; ++i) data.add_(0.1 * (world().rank() + 1 - 0.5));
    data.fill_(world().rank() + 1);
    const Request first = world().all_reduce(data, ReduceOp::sum, {.priority = Priority::high});
    const Request second = world().broadcast(data, 0, {.priority = Priority::low, .after = {&first, 1}});
    second.wait();
    EXPECT_EQ(data.sub_(expected).abs_().max().item<double>(), 0) << "round " << round;
  }
}

TEST_F(NcclCollectives, ATensorOnTheCpuIsRefused) { EXPECT_THROW(world().all_reduce(at::zeros({4})), UserError); }

}  // namespace
}  // namespace axonn
