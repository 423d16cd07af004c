#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/comm/same_settings.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// The same misuse gives the same error on one rank ("self") and on two.
void expect_user_error(const std::function<void(Communicator&)>& call, const std::string& part) {
  for (const int ranks : {1, 2})
    run_local(ranks, [&](Environment& environment) {
      try {
        call(environment.world());
        ADD_FAILURE() << "no error on " << ranks << " ranks; expected one with '" << part << "'";
      } catch (const UserError& error) {
        EXPECT_NE(error.sentence().find(part), std::string::npos) << error.sentence();
      }
    });
}

TEST(CallChecks, Dtype) {
  expect_user_error([](Communicator& c) { c.all_reduce(at::empty({4}, at::kBool)); }, "got Bool");
}

TEST(CallChecks, Contiguity) {
  expect_user_error([](Communicator& c) { c.all_reduce(at::empty({4, 4}, at::kFloat).t().narrow(0, 0, 2)); },
                    "must be contiguous");
}

TEST(CallChecks, UndefinedTensor) {
  expect_user_error([](Communicator& c) { c.broadcast(at::Tensor(), 0); }, "undefined tensor");
}

TEST(CallChecks, Device) {
  expect_user_error([](Communicator& c) { c.all_reduce(at::empty({4}, at::device(at::kMeta))); },
                    "takes tensors on cpu");
}

TEST(CallChecks, SegmentThatNoMessageMayHave) {
  for (const int64_t bytes : {int64_t{-1}, kSmallestSegment - 1, kLargestSegment + 1}) {
    const std::string part = "a segment has 8192 to 1048576 bytes, got " + std::to_string(bytes) + "; leave it 0";
    const at::Tensor data = at::full({4}, 1.0F);
    expect_user_error([&](Communicator& c) { c.all_reduce(data, ReduceOp::sum, {.segment_bytes = bytes}); }, part);
    expect_user_error([&](Communicator& c) { c.fused({.contributions = data}, {.segment_bytes = bytes}); }, part);
  }
}

TEST(CallChecks, EqualPartsThatDoNotFit) {
  expect_user_error([](Communicator& c) { c.reduce_scatter(at::empty({7}, at::kFloat), at::empty({3}, at::kFloat)); },
                    "equal parts, got 7");
}

TEST(CallChecks, OneCountARank) {
  const std::vector<int64_t> counts = {1, 2, 3};
  expect_user_error(
      [&](Communicator& c) { c.all_gather(at::empty({1}, at::kFloat), at::empty({6}, at::kFloat), counts); },
      "got 3 for");
}

TEST(CallChecks, CountsThatAddUp) {
  expect_user_error(
      [](Communicator& c) {
        const std::vector<int64_t> counts(static_cast<size_t>(c.size()), 2);
        c.reduce_scatter(at::empty({5}, at::kFloat), at::empty({2}, at::kFloat), counts);
      },
      "must add up to the whole's 5");
}

TEST(CallChecks, CountOfTheOwnPart) {
  expect_user_error(
      [](Communicator& c) {
        const std::vector<int64_t> counts(static_cast<size_t>(c.size()), 2);
        c.all_gather(at::empty({1}, at::kFloat), at::empty({2 * c.size()}, at::kFloat), counts);
      },
      "part has 1 elements");
}

TEST(CallChecks, OneDtype) {
  expect_user_error([](Communicator& c) { c.all_gather(at::empty({1}, at::kFloat), at::empty({c.size()}, at::kInt)); },
                    "one dtype");
}

TEST(CallChecks, RootInTheGroup) {
  expect_user_error([](Communicator& c) { c.reduce(at::empty({1}, at::kFloat), 2); }, "indices in the group");
}

TEST(CallChecks, PeerIsAnotherRank) {
  expect_user_error([](Communicator& c) { c.send(at::empty({1}, at::kFloat), c.rank()); }, "with itself");
}

TEST(CallChecks, FusedCollectives) {
  const at::Tensor four = at::empty({4}, at::kFloat), five = at::empty({5}, at::kFloat);
  const auto nothing = [](int64_t, int64_t, const void*, void*) {};
  const auto expect = [](const FusedCollective& collective, std::optional<int64_t> offset, const std::string& part) {
    expect_user_error([&](Communicator& c) { c.fused(collective, {.arena_offset = offset}); }, part);
  };
  expect({}, 0, "got neither");
  expect({.contributions = at::empty({4}, at::kBool)}, 0, "got Bool");
  expect({.results = at::empty({4}, at::device(at::kMeta))}, 0, "takes tensors on cpu");
  expect({.contributions = four}, -1, "must not be negative, got -1");
  expect({four, five, nothing}, 0, "equally many elements, got 4 and 5");
  expect({four, four}, 0, "need an epilogue between them");
  expect({five.narrow(0, 0, 4), five.narrow(0, 1, 4), nothing}, 0, "must be one tensor, or not overlap");
  expect({four, four.view(at::kInt), nothing}, 0, "must be one tensor, or not overlap");
  const auto table = [](std::vector<int64_t> sizes) {
    std::vector<NamedTensor> tensors;
    for (const int64_t size : sizes) tensors.push_back({"t", at::empty({size}, at::kFloat)});
    return std::make_shared<const ScatteredTensors>(std::move(tensors));
  };
  const CollectiveBuffer one(table({4000}), {0, 4096}), three(table({1024, 1024, 1952}), {0, 4096});
  expect({one, three, nothing}, 0, "must have their elements at the same places");
  expect({.contributions = one}, 4096, "arena_offset must be 0, got 4096");
  expect({.contributions = one}, std::nullopt, "arena_offset must be 0, got none");
  expect({.contributions = CollectiveBuffer(table({4000}), {0, 5000})}, 0, "must lie in the 4096 places");
}

TEST(CallChecks, GroupHoldsThisRank) {
  run_local(2, [](Environment& environment) {
    EXPECT_THROW(environment.communicator({.axes = {}, .ranks = {0, 1}, .index = 1 - environment.rank()}, "wrong"),
                 UserError);
    EXPECT_THROW(environment.communicator({.axes = {}, .ranks = {0, 2}, .index = 0}, "outside"), UserError);
  });
}

TEST(CallChecks, RanksWithOtherSettingsAreAUserErrorOnAll) {
  run_local(3, [](Environment& environment) {
    check_same_settings(environment.world(), {{"steps", "5"}, {"name", ""}});
    try {
      check_same_settings(environment.world(), {{"steps", "5"}, {"name", environment.rank() == 1 ? "b" : ""}});
      FAIL();
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 has name = b and rank 0 has nothing"), std::string::npos)
          << error.what();
    }
  });
}

TEST(CallChecks, RanksThatMakeDifferentGroupsAreAUserError) {
  run_local(2, [](Environment& environment) {
    try {
      environment.communicator(environment.world().group(), environment.rank() == 0 ? "x" : "y");
      FAIL();
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("ranks that share groups make them in the same order"),
                std::string::npos)
          << error.what();
    }
  });
}

// Ranks 0 and 1 have used more channels than rank 2.
TEST(CallChecks, GroupAgreesOnAChannelThatIsFreeOnAllMembers) {
  run_local(3, [](Environment& environment) {
    const Group pair{.axes = {}, .ranks = {0, 1}, .index = environment.rank()};
    std::vector<std::unique_ptr<Communicator>> pairs;
    for (int i = 0; environment.rank() < 2 && i < 3; ++i) pairs.push_back(environment.communicator(pair, "pair"));
    const auto all = environment.communicator(environment.world().group(), "all");
    const auto sum = at::full({1}, 1.0, at::kFloat);
    std::vector<Request> requests = {all->all_reduce(sum)};
    for (const auto& communicator : pairs) requests.push_back(communicator->barrier());
    for (const Request& request : requests) request.wait();
    EXPECT_EQ(sum.item<float>(), 3.0F);
  });
}

TEST(SelfCommunicator, CopiesAfterWhatItWasToldToWaitFor) {
  run_local(2, [](Environment& environment) {
    const auto self = environment.communicator({.axes = {}, .ranks = {environment.rank()}, .index = 0}, "self");
    EXPECT_EQ(self->backend(), "self");
    const auto data = at::full({100'000}, 1.0, at::kFloat);
    at::Tensor copy = at::empty_like(data);
    const std::vector<Request> summed = {environment.world().all_reduce(data)};
    const std::vector<Request> copied = {self->all_gather(data, copy, {}, {.after = summed})};
    environment.world().all_reduce(copy, ReduceOp::sum, {.after = copied}).wait();
    EXPECT_EQ(copy[5].item<float>(), 4.0F);
  });
}

TEST(SelfCommunicator, ComputesAfterWhatItWasToldToWaitFor) {
  run_local(2, [](Environment& environment) {
    const auto self = environment.communicator({.axes = {}, .ranks = {environment.rank()}, .index = 0}, "self");
    const auto data = at::full({100'000}, 1.0, at::kFloat);
    const Epilogue add_one = [](int64_t, int64_t count, const void* sum, void* result) {
      for (int64_t i = 0; i < count; ++i) static_cast<float*>(result)[i] = static_cast<const float*>(sum)[i] + 1;
    };
    const std::vector<Request> summed = {environment.world().all_reduce(data)};
    const std::vector<Request> computed = {self->fused({data, data, add_one}, {.after = summed, .arena_offset = 7})};
    environment.world().all_reduce(data, ReduceOp::sum, {.after = computed}).wait();
    EXPECT_TRUE(data.eq(6.0).all().item<bool>());
  });
}

}  // namespace
}  // namespace axonn
