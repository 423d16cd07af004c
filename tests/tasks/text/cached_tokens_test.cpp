#include "tasks/text/cached_tokens.hpp"

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/data/shards/shard_writer.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

// The shards of ranks 0 and 2, of two bytes per token.
class CachedTokensTest : public testing::Test {
 protected:
  CachedTokensTest() {
    write(0, {1, 2, 3});
    write(2, {4, 5});
    summary = write_summary(scratch.path(), {3, -1, 2}, written);
  }
  void write(int rank, const Ids& tokens) const {
    ShardWriter writer(shard_of_rank(scratch.path(), rank), ShardFormat::megatron, 256);
    writer.append(tokens);
    writer.finish();
  }

  const test::Scratch scratch;
  TextEncoding::Progress written;
  std::string summary;
};

TEST_F(CachedTokensTest, AreThoseOfTheirSummary) {
  const CachedTokens found = open_tokens(scratch.path(), summary);
  ASSERT_EQ(found.shards.size(), 2U);
  Ids read(2);
  found.shards[1].read(0, std::span(read));
  EXPECT_EQ(read, (Ids{4, 5}));
}

TEST_F(CachedTokensTest, ReadingThemAllIsCounted) {
  EXPECT_EQ(written.bytes, 10);
  TextEncoding::Progress checked;
  EXPECT_EQ(summary_in(scratch.path(), checked), summary);
  EXPECT_EQ(checked.bytes, 10);
}

TEST_F(CachedTokensTest, FilesThatAreSeenLateAreWaitedFor) {
  const fs::path index = fs::path(shard_of_rank(scratch.path(), 2)) += ".idx";
  fs::rename(index, scratch / "away");
  std::thread other_host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    fs::rename(scratch / "away", index);
  });
  EXPECT_EQ(open_tokens(scratch.path(), summary).shards.size(), 2U);
  other_host.join();
}

}  // namespace
}  // namespace axonn
