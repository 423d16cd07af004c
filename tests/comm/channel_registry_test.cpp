#include "comm/host/channel_registry.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "comm/channel_job.hpp"

namespace axonn {
namespace {

constexpr uint32_t kSmallestTagLimit = 32767;  // the least that MPI's standard promises

Group pair_of(int a, int b) { return {.axes = {}, .ranks = {a, b}, .index = 0}; }

void make_all_groups(const Grid& grid) {
  ChannelJob job(grid.ranks(), kSmallestTagLimit);
  ASSERT_TRUE(job.make_all(grid)) << grid.shape().to_string();
  EXPECT_LT(job.largest_id(), 32U);
}

TEST(ChannelRegistry, EveryGridOf4096RanksFitsTheSmallestTagLimit) {
  for (const Grid& grid : power_of_two_grids(4096)) ASSERT_NO_FATAL_FAILURE(make_all_groups(grid));
}

TEST(ChannelRegistry, GridOf65536RanksFitsTheSmallestTagLimit) {
  make_all_groups(Grid({.x = 8, .y = 8, .z = 32, .data = 32}));
}

TEST(ChannelRegistry, GroupsThatShareARankHaveDifferentNumbers) {
  ChannelJob job(4, kSmallestTagLimit);
  for (const auto& [a, b] : {std::pair(0, 1), {1, 2}, {2, 3}, {0, 3}, {0, 2}, {1, 3}})
    EXPECT_TRUE(job.make(pair_of(a, b), "pair")) << a << " and " << b;
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

// 12 bits for the queues of 1023 communicators, and up to 15 for labels.
TEST(ChannelRegistry, WhatQueuesDoNotNeedLabelsMessages) {
  for (const auto& [largest, bits] : {std::pair(0x7FFFFFFFU, 15), {0x7FFFFFU, 11}, {32767U, 3}, {4095U, 0}, {11U, 0}}) {
    const auto channel = ChannelRegistry(largest).make(pair_of(0, 1), "x", 1);
    EXPECT_EQ(channel->labels.mask, (1U << bits) - 1) << largest;
    EXPECT_LE(channel->labels.channel(channel->ids[2], ~uint64_t{0} >> 32), largest);
    EXPECT_EQ(channel->labels.channel(channel->ids[1], 0), channel->ids[1]);
  }
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
