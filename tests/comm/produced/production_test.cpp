#include "axonn/comm/production.hpp"

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "comm/collectives/block_layout.hpp"

namespace axonn {
namespace {

Group group_of(int members, int index) {
  Group group{.axes = {}, .ranks = {}, .index = index};
  for (int rank = 0; rank < members; ++rank) group.ranks.push_back(rank);
  return group;
}

TEST(ProducerCounter, ComparesByDifferenceSoItMayWrap) {
  ProducerCounter counter(~uint32_t{0} - 1);
  const uint32_t first = counter.claim(4);
  EXPECT_TRUE(counter.reached(first));
  for (uint32_t part = 1; part <= 4; ++part) {
    EXPECT_FALSE(counter.reached(first + part));
    counter.release();
    EXPECT_TRUE(counter.reached(first + part));
  }
  EXPECT_EQ(counter.claim(1), 2U);
}

TEST(ProducedParts, ComeInTheOrderOfTheRingsMessages) {
  constexpr int64_t kElements = 3 * 40'000;  // 40'000 elements of each owner, 16'384 of them in a part
  const ProducedParts parts(group_of(3, 1), kElements, 4, 16'384);
  EXPECT_EQ(parts.message_elements(), 2048);
  EXPECT_EQ(parts.depth(), 8);
  ASSERT_EQ(parts.size(), 9);
  EXPECT_EQ(parts[0], (Range{0, 16'384}));       // owner 0 = r - 1
  EXPECT_EQ(parts[1], (Range{80'000, 96'384}));  // owner 2 = r - 2
  EXPECT_EQ(parts[2], (Range{40'000, 56'384}));  // its own
  EXPECT_EQ(parts[3], (Range{16'384, 32'768}));  // the second range of each
  EXPECT_EQ(parts[8], (Range{40'000 + 32'768, 80'000}));
  EXPECT_EQ(parts.last_part(0, 16'383, 1), 0);
  EXPECT_EQ(parts.last_part(0, 16'383, 2), 3);
  EXPECT_EQ(parts.last_part(1, 0, 1), 2);
}

void for_parts_of_many_sizes(const std::function<void(const ProducedParts& parts, int index)>& check) {
  const std::array<std::vector<int64_t>, 5> ranges = {{{1}, {10'000}, {1'000'000}, {5000, 20'000, 7001}, {9000, 4100}}};
  for (const int members : {1, 2, 3, 5})
    for (const int64_t elements : {0, 1, 4, 5000, 100'003})
      for (const std::vector<int64_t>& sizes : ranges)
        for (int index = 0; index < members; ++index) {
          SCOPED_TRACE(::testing::Message() << members << " members, " << elements << " elements, " << sizes.front());
          check({group_of(members, index), elements, 2, sizes}, index);
        }
}

TEST(ProducedParts, HoldEveryElementOnce) {
  for_parts_of_many_sizes([](const ProducedParts& parts, int) {
    std::vector<int> times(static_cast<size_t>(parts.elements()));
    for (int64_t part = 0; part < parts.size(); ++part)
      for (int64_t i = parts[part].begin; i < parts[part].end; ++i) ++times[static_cast<size_t>(i)];
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
  });
}

// The elements that a collective reads are written when the part that last_part() names is
// released, not one sooner: whatever elements it asks for, whatever the ranges are.
TEST(ProducedParts, AreAskedForByTheLastOneThatIsRead) {
  for_parts_of_many_sizes([](const ProducedParts& parts, int index) {
    for (int owner = 0; owner < parts.members(); ++owner) {
      const int64_t first = BlockLayout::equal(parts.members(), parts.elements()).part_begin(owner),
                    share = BlockLayout::equal(parts.members(), parts.elements()).count(owner);
      for (const int64_t count : {1, 100, 4097, 30'000})
        for (int64_t begin = 0; begin + count <= share; begin += 997) {
          int64_t last = -1;
          for (int64_t part = 0; part < parts.size(); ++part) {
            const Range at = parts[part];
            if (at.begin < first + begin + count && first + begin < at.end) last = part;
          }
          ASSERT_EQ(parts.last_part(owner, begin, count), last)
              << owner << ' ' << begin << ' ' << count << ' ' << index;
        }
    }
  });
}

// Both ends of a message cut it by the same numbers, wherever they are in the ring.
TEST(ProducedParts, HaveTheSameRangesOnAllMembers) {
  for (const int64_t elements : {5000, 100'003}) {
    const std::array<int64_t, 3> sizes = {5000, 20'000, 7001};
    const ProducedParts first(group_of(3, 0), elements, 4, sizes);
    for (int index = 1; index < 3; ++index) {
      const ProducedParts other(group_of(3, index), elements, 4, sizes);
      ASSERT_EQ(other.ranges(), first.ranges());
      for (int64_t range = 0; range < first.ranges(); ++range) EXPECT_EQ(other.range(range), first.range(range));
      EXPECT_EQ(other.message_elements(), first.message_elements());
      EXPECT_EQ(other.depth(), first.depth());
    }
  }
}

TEST(ProducedParts, MayHaveRangesOfSeveralSizes) {
  const std::array<int64_t, 3> ranges = {30'000, 150'000, 60'000};
  const ProducedParts parts(group_of(2, 0), 2 * 300'000 + 1, 4, ranges);
  EXPECT_EQ(parts.message_elements(), (60 << 10) / 4);
  EXPECT_EQ(parts.depth(), 10);  // 150'000 elements in messages of 15'360
  EXPECT_EQ(parts.common_elements(), 30'000);
  ASSERT_EQ(parts.size(), 2 * 5);
  EXPECT_EQ(parts[2], (Range{300'001 + 30'000, 300'001 + 180'000}));  // owner 1, the second range
  EXPECT_EQ(parts[7], (Range{240'000, 300'000}));                     // owner 0: the last one again
  EXPECT_EQ(parts[9], (Range{300'000, 300'001}));                     // and what is left
  EXPECT_EQ(parts.last_part(1, 29'999, 2), 2);
  EXPECT_EQ(parts.last_part(0, 0, 180'000), 3);
}

TEST(ProducedParts, HaveMessagesOf8To60KiB) {
  for (const int64_t wanted : {100, 70'000, 500'000, 3'000'000}) {
    const ProducedParts parts(group_of(2, 0), 20'000'000, 4, wanted);
    EXPECT_GE(parts.message_elements() * 4, 8 << 10);
    EXPECT_LE(parts.message_elements() * 4, 60 << 10);
    EXPECT_LE(parts.range(0).size(), parts.depth() * parts.message_elements());
  }
}

using Misuse = std::function<void(Communicator&, const Production&)>;

void expect_refused(const Misuse& call, const std::string& part) {
  for (const int ranks : {1, 2})
    run_local(ranks, [&](Environment& environment) {
      const Production production(std::make_shared<ProducerCounter>(), {environment.world().group(), 8, 4, 8});
      try {
        call(environment.world(), production);
        ADD_FAILURE() << "no error on " << ranks << " ranks; expected one with '" << part << "'";
      } catch (const UserError& error) {
        EXPECT_NE(error.sentence().find(part), std::string::npos) << error.sentence();
      }
    });
}

TEST(Production, IsRefusedWhereItDoesNotFit) {
  const at::Tensor eight = at::full({8}, 1, at::kFloat), nine = at::full({9}, 1, at::kFloat);
  const auto nothing = [](int64_t, int64_t, const void*, void*) {};
  expect_refused([&](Communicator& c, const Production& p) { c.all_reduce(nine, ReduceOp::sum, {.production = &p}); },
                 "writes equal parts of 8 elements, the collective reads 9");
  expect_refused([&](Communicator& c,
                     const Production& p) { c.fused({eight, eight, nothing}, {.arena_offset = 0, .production = &p}); },
                 "give one of them only");
  expect_refused([&](Communicator& c, const Production& p) { c.fused({{}, eight, nothing}, {.production = &p}); },
                 "not here");
  expect_refused([&](Communicator& c, const Production& p) { c.broadcast(eight, 0, {.production = &p}); }, "not here");
  expect_refused([&](Communicator& c, const Production& p) { c.reduce(eight, 0, ReduceOp::sum, {.production = &p}); },
                 "not here");
  expect_refused([&](Communicator& c, const Production& p) { c.barrier({.production = &p}); }, "not here");
  expect_refused(
      [&](Communicator& c, const Production&) {
        const Production other(std::make_shared<ProducerCounter>(), {group_of(3, 0), 8, 4, 8});
        c.all_reduce(eight, ReduceOp::sum, {.production = &other});
      },
      "for a group of 3 ranks");
}

TEST(Production, NeedsElementsOfASize) {
  EXPECT_THROW(ProducedParts(group_of(2, 0), 8, 0, 8), UserError);
  EXPECT_THROW(ProducedParts(group_of(2, 0), 8, 4, 0), UserError);
}

// Rank 1 leaves after two parts, such as by an exception; the others get errors, too.
TEST(Production, ThatIsGivenUpFailsTheCollectiveOnAllRanks) {
  for (const char* shared : {"1", "0"}) {
    setenv("AXONN_SHARED_MEMORY", shared, 1);
    EXPECT_THROW(run_local(2,
                           [](Environment& environment) {
                             const at::Tensor data = at::full({100'000}, 1, at::kFloat);
                             Request sum;
                             {
                               Production production(std::make_shared<ProducerCounter>(),
                                                     {environment.world().group(), 100'000, 4, 20'000});
                               sum = environment.world().all_reduce(data, ReduceOp::sum, {.production = &production});
                               const int64_t written = environment.rank() == 1 ? 2 : production.parts().size();
                               for (int64_t part = 0; part < written; ++part) production.release();
                             }
                             try {
                               sum.wait();
                               ADD_FAILURE() << "no error on rank " << environment.rank();
                             } catch (const BackendError& error) {
                               const bool named = error.sentence().find("gave up") != std::string::npos;
                               EXPECT_TRUE(named || environment.rank() == 0) << error.sentence();
                               throw;
                             }
                           }),
                 BackendError);
  }
  unsetenv("AXONN_SHARED_MEMORY");
}

}  // namespace
}  // namespace axonn
