#include "axonn/data/tokens/token_windows.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "data/shards/shard_files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Tokens;

constexpr int64_t kSequence = 16, kMost = 1'000'000;

class TokenWindowsTest : public testing::Test {
 protected:
  // A shard whose tokens are first, first + 1, ..., so that an id says where it stands.
  NamedData shard(const std::string& name, int64_t tokens, int64_t first = 0, int64_t weight = 0) const {
    Tokens ids(static_cast<size_t>(tokens));
    std::iota(ids.begin(), ids.end(), first);
    return {.path = scratch.file(name, test::llmc_file(ids, 4)), .format = ShardFormat::llmc, .weight = weight};
  }

  static TokenData load(const std::vector<NamedData>& data, double validation_fraction = 0) {
    return TokenData::load({.data = data, .validation_fraction = validation_fraction, .vocabulary = kMost});
  }

  // The first token of a sample; the others follow it.
  static int64_t first_of(TokenWindows& windows, int64_t number) {
    Tokens ids(kSequence), targets(kSequence);
    windows.read(number, ids, targets);
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(ids[i], ids[0] + static_cast<int64_t>(i));
      EXPECT_EQ(targets[i], ids[i] + 1);
    }
    return ids[0];
  }

  test::Scratch scratch;
};

TEST_F(TokenWindowsTest, AnEpochHasEveryWindowOnce) {
  const TokenData data = load({shard("a", 1000)});
  TokenWindows windows(data, kSequence, 1);
  ASSERT_EQ(windows.epoch(), 62);  // 999 targets, 7 of them left over
  std::set<int64_t> offsets;
  std::vector<Tokens> epochs;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    Tokens firsts;
    for (int64_t i = 0; i < 62; ++i) {
      EXPECT_EQ(windows.place(epoch * 62 + i).epoch, epoch);
      firsts.push_back(first_of(windows, epoch * 62 + i));
    }
    Tokens& order = epochs.emplace_back();
    for (const int64_t first : firsts) order.push_back(first / kSequence);  // the number of the window
    std::ranges::sort(firsts);
    EXPECT_GE(firsts[0], 0);
    EXPECT_LE(firsts[0], 7);
    offsets.insert(firsts[0]);
    for (size_t i = 1; i < firsts.size(); ++i) ASSERT_EQ(firsts[i], firsts[i - 1] + kSequence);
  }
  EXPECT_GT(offsets.size(), 3U);  // the part that is left over changes
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_F(TokenWindowsTest, SeveralSourcesAreOneEpoch) {
  const TokenData data = load({shard("a", 500), shard("tiny", 5, 500), shard("b", 300, 1000)});
  TokenWindows windows(data, kSequence, 1);
  ASSERT_EQ(windows.epoch(), 31 + 18);
  Tokens firsts;
  for (int64_t i = 0; i < 49; ++i) firsts.push_back(first_of(windows, i));
  EXPECT_FALSE(std::ranges::is_sorted(firsts));
  std::ranges::sort(firsts);
  for (size_t i = 1; i < firsts.size(); ++i) EXPECT_TRUE(i == 31 || firsts[i] == firsts[i - 1] + kSequence) << i;
  EXPECT_LT(firsts[30], 500);
  EXPECT_GE(firsts[31], 1000);
}

TEST_F(TokenWindowsTest, ABlendHasItsWeightsAndEveryPartItsEpochs) {
  const TokenData data = load({shard("a", 500, 0, 700'000'000), shard("b", 300, 1000, 300'000'000)});
  TokenWindows windows(data, kSequence, 1);
  EXPECT_EQ(windows.epoch(), std::nullopt);
  std::map<std::pair<size_t, int64_t>, std::set<int64_t>> seen;  // by part and epoch
  std::vector<int64_t> given(2);
  for (int64_t n = 0; n < 700; ++n) {
    const TokenWindows::Place place = windows.place(n);
    EXPECT_EQ(place.epoch, given[place.part] / (place.part == 0 ? 31 : 18));
    ++given[place.part];
    EXPECT_LT(std::abs(given[0] * 10 - 7 * (n + 1)), 10) << n;
    const int64_t first = first_of(windows, n);
    EXPECT_EQ(first >= 1000, place.part == 1);
    EXPECT_TRUE((seen[{place.part, place.epoch}].insert(first).second)) << n;
  }
  EXPECT_EQ((seen[{0, 3}].size()), 31U);
  EXPECT_EQ((seen[{1, 3}].size()), 18U);
}

TEST_F(TokenWindowsTest, ASampleFollowsFromSeedAndNumber) {
  const TokenData data = load({shard("a", 500, 0, 2), shard("b", 300, 1000, 1)});
  TokenWindows forward(data, kSequence, 1), backward(data, kSequence, 1), other(data, kSequence, 2);
  Tokens there, back, others;
  for (int64_t n = 0; n < 300; ++n) there.push_back(first_of(forward, n));
  for (int64_t n = 299; n >= 0; --n) back.push_back(first_of(backward, n));
  for (int64_t n = 0; n < 300; ++n) others.push_back(first_of(other, n));
  std::ranges::reverse(back);
  EXPECT_EQ(there, back);
  EXPECT_NE(there, others);
}

// A change of the order would change every run.
TEST_F(TokenWindowsTest, TheOrderStaysForEver) {
  const TokenData data = load({shard("a", 500, 0, 2), shard("b", 300, 1000, 1)});
  TokenWindows windows(data, kSequence, 1);
  Tokens firsts;
  for (int64_t n = 0; n < 6; ++n) firsts.push_back(first_of(windows, n));
  EXPECT_EQ(firsts, (Tokens{273, 417, 1227, 401, 385, 1115}));
}

TEST_F(TokenWindowsTest, DrawnSamplesAreThoseOfEarlierVersions) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += static_cast<char>(i * i % 251);
  const TokenData data = TokenData::load(
      {.data = {{.path = scratch.file("t", text)}}, .order = SampleOrder::drawn, .tokenizer = Tokenizer::bytes()});
  TokenWindows windows(data, 64, 7);
  EXPECT_EQ(windows.epoch(), std::nullopt);
  EXPECT_EQ(windows.place(3).begin, 193);
  std::set<int64_t> starts;
  Tokens ids(64), targets(64);
  for (int64_t number = 0; number < 200; ++number) {
    const int64_t start = windows.place(number).begin;
    EXPECT_GE(start, 0);
    EXPECT_LT(start, 1800 - 64 - 1);
    starts.insert(start);
    windows.read(number, ids, targets);
    EXPECT_EQ(ids[0], static_cast<unsigned char>(text[static_cast<size_t>(start)]));
    EXPECT_EQ(targets[63], static_cast<unsigned char>(text[static_cast<size_t>(start) + 64]));
  }
  EXPECT_GT(starts.size(), 150U);
}

TEST_F(TokenWindowsTest, TheEndOfEachSourceIsHeldOut) {
  const TokenData data = load({shard("a", 500), shard("b", 300, 1000)}, 0.2);
  TokenWindows windows(data, kSequence, 1);
  EXPECT_EQ(data.train_tokens(), 640);
  EXPECT_EQ(data.validation_tokens(), 160);
  ASSERT_EQ(windows.validation_windows(), 6 + 3);
  Tokens ids(kSequence), targets(kSequence), firsts;
  for (int64_t i = 0; i < 9; ++i) {
    windows.read_validation(i, ids, targets);
    EXPECT_EQ(targets.back(), ids.front() + kSequence);
    firsts.push_back(ids.front());
  }
  EXPECT_EQ(firsts, (Tokens{400, 416, 432, 448, 464, 480, 1240, 1256, 1272}));
  EXPECT_USER_ERROR(windows.read_validation(9, ids, targets), "9 windows of 16 tokens, asked for number 9");
}

TEST_F(TokenWindowsTest, WhatDoesNotFitIsRefused) {
  const TokenData data = load({shard("a", 500, 0, 1), shard("tiny", 16, 0, 1)});
  EXPECT_USER_ERROR(TokenWindows(data, kSequence, 1), "tiny has 16 tokens to train on", "at least 17");
  EXPECT_USER_ERROR(TokenWindows(data, 0, 1), "at least 1 token");
  TokenWindows windows(data, 8, 1);
  Tokens ids(8), targets(7);
  EXPECT_USER_ERROR(windows.read(0, ids, targets), "size of a sequence, 8, got 8 and 7");
}

}  // namespace
}  // namespace axonn
