#include "comm/host/channel_registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr uint32_t kSmallestTagLimit = 32767;  // the least that MPI's standard promises

Group pair_of(int a, int b) { return {.axes = {}, .ranks = {a, b}, .index = 0}; }

// Every rank of a job, with the groups that it makes. The agreement of a group's members is a
// maximum over their registries.
class Job {
 public:
  Job(int ranks, uint32_t largest_channel)
      : registries_(static_cast<size_t>(ranks), ChannelRegistry(largest_channel)), used_(registries_.size()) {}

  void make(const Group& group, const std::string& name) {
    int64_t number = 0;
    for (const int rank : group.ranks) number = std::max(number, registries_[static_cast<size_t>(rank)].next());
    for (const int rank : group.ranks) {
      const auto id = registries_[static_cast<size_t>(rank)].make(group, name, number)->ids.front();
      auto& used = used_[static_cast<size_t>(rank)];
      ASSERT_EQ(std::ranges::find(used, id), used.end()) << "rank " << rank << ", group " << name;
      used.push_back(id);
    }
  }
  uint32_t largest_id() const {
    uint32_t largest = 0;
    for (const auto& used : used_) largest = std::max(largest, std::ranges::max(used));
    return largest;
  }

 private:
  std::vector<ChannelRegistry> registries_;
  std::vector<std::vector<uint32_t>> used_;
};

// The groups of a training run, among them the whole job.
const std::vector<AxisSet>& groups_of_a_run() {
  static const std::vector<AxisSet> groups = {{Axis::x, Axis::y, Axis::z, Axis::data},
                                              {Axis::x},
                                              {Axis::y},
                                              {Axis::z},
                                              {Axis::data},
                                              {Axis::z, Axis::data},
                                              {Axis::x, Axis::y, Axis::z}};
  return groups;
}

void make_all_groups(const GridShape& shape) {
  const Grid grid(shape);
  Job job(grid.ranks(), kSmallestTagLimit);
  for (const AxisSet axes : groups_of_a_run())
    for (const Group& group : grid.groups(axes))
      if (group.size() > 1) {
        ASSERT_NO_FATAL_FAILURE(job.make(group, axes.to_string()));
      }
  EXPECT_LT(job.largest_id(), 32U);
}

TEST(ChannelRegistry, EveryGridOf4096RanksFitsTheSmallestTagLimit) {
  for (int x = 1; x <= 8; x *= 2)
    for (int y = 1; y <= 8; y *= 2)
      for (int z = 1; z <= 32; z *= 2)
        ASSERT_NO_FATAL_FAILURE(make_all_groups({.x = x, .y = y, .z = z, .data = 4096 / (x * y * z)}));
}

TEST(ChannelRegistry, GridOf65536RanksFitsTheSmallestTagLimit) {
  make_all_groups({.x = 8, .y = 8, .z = 32, .data = 32});
}

TEST(ChannelRegistry, GroupsThatShareARankHaveDifferentNumbers) {
  Job job(4, kSmallestTagLimit);
  for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {2, 3}, {0, 3}, {0, 2}, {1, 3}})
    ASSERT_NO_FATAL_FAILURE(job.make(pair_of(a, b), "pair"));
}

TEST(ChannelRegistry, ChannelServesTheNextCommunicatorOfItsGroup) {
  ChannelRegistry registry(kSmallestTagLimit);
  EXPECT_EQ(registry.reuse(pair_of(0, 1), "x"), nullptr);
  const auto channel = registry.make(pair_of(0, 1), "x", 1);
  registry.give_back(channel);
  EXPECT_EQ(registry.reuse(pair_of(0, 2), "x"), nullptr);
  EXPECT_EQ(registry.reuse(pair_of(0, 1), "y"), nullptr);
  EXPECT_EQ(registry.reuse(pair_of(0, 1), "x"), channel);
  EXPECT_EQ(registry.reuse(pair_of(0, 1), "x"), nullptr);
}

TEST(ChannelRegistry, AgreementsChannelIsNoCommunicators) {
  ChannelRegistry registry(kSmallestTagLimit);
  const auto agreement = registry.agreement(pair_of(0, 1), "x");
  EXPECT_EQ(agreement->ids.front(), 0U);
  registry.give_back(agreement);
  EXPECT_EQ(registry.reuse(pair_of(0, 1), "x"), nullptr);
}

TEST(ChannelRegistry, TransportWithoutMoreChannelsIsAUserError) {
  ChannelRegistry registry(11);  // numbers 0 to 2
  registry.make(pair_of(0, 1), "x", 2);
  try {
    registry.make(pair_of(0, 2), "y", registry.next());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("communicator 3 of a rank, and this transport has channels for 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace axonn
