#include "train/replicas.hpp"

#include <atomic>
#include <functional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

const GridShape kGrid = {.z = 2, .data = 2};

// Sharded over Z, so replicated over data only; and one that all ranks hold.
const ShardSpec kOverZ = {{Dim::whole(100)}, true}, kWhole = {{Dim::whole(40)}, false};

// The check on every rank of the grid, after `change`.
void check(const std::function<void(std::vector<CheckpointTensor>&, const Coordinate&)>& change,
           const std::function<void(const std::function<void()>&)>& expect) {
  run_local(static_cast<int>(kGrid.ranks()), [&](Environment& environment) {
    Context context(environment, kGrid);
    const auto over = [&](AxisSet axes) { return CheckpointCut::over(context.grid(), axes); };
    const double z = context.at().z, data = context.at().data, own = environment.rank();
    std::vector<CheckpointTensor> tensors = {{"weights/w", kOverZ, at::arange(64) + z},
                                             {"weights/b", kWhole, at::arange(64)},
                                             {"adam.m/w", kOverZ, at::arange(64) + own, over(Axis::data)},
                                             {"adam.m/b", kWhole, at::arange(64) + own, over({Axis::z, Axis::data})},
                                             {"adam.v/b", kWhole, at::arange(64) + data, over(Axis::data)}};
    change(tensors, context.at());
    expect([&] { check_replicas(context, tensors, 7); });
  });
}

TEST(Replicas, EqualOnesAndOwnPartsOfACutPass) {
  check([](auto&, const Coordinate&) {}, [](const auto& checked) { EXPECT_NO_THROW(checked()); });
}

TEST(Replicas, ABitThatDiffersIsNamedWithItsAxesOnEveryRank) {
  struct Case {
    size_t tensor;
    Coordinate at;
    const char* part;
  };
  for (const Case& wrong :
       {Case{0, {.z = 1, .data = 1}, "'weights/w' over data"}, Case{1, {.z = 1}, "'weights/b' over z+data"},
        Case{4, {.z = 1, .data = 1}, "'adam.v/b' over z"}}) {
    std::atomic<int> named = 0;
    check(
        [&](auto& tensors, const Coordinate& at) {
          if (at == wrong.at) tensors[wrong.tensor].shard[5].add_(1);
        },
        [&](const auto& checked) {
          const std::string sentence = test::user_error(checked);
          EXPECT_NE(sentence.find("after step 7 ranks that must hold the same bits differ"), std::string::npos);
          if (sentence.find(wrong.part) != std::string::npos) ++named;
        });
    EXPECT_EQ(named, 4) << wrong.part;  // all ranks
  }
}

}  // namespace
}  // namespace axonn
