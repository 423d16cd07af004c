// A shard of 20 GB, of which nothing is written: a run begins with it and reads hardly any of it.
#include <sys/resource.h>

#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/data/tokens/token_windows.hpp"
#include "data/shards/shard_files.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

constexpr int64_t kTokens = 10'000'000'000, kSequence = 1024;

int64_t touched_pages() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

void expect_a_first_batch(const NamedData& shard) {
  const int64_t before = touched_pages();
  const TokenData data = TokenData::load({.data = {shard}, .validation_tokens = 1 << 20, .vocabulary = 50'257});
  TokenWindows windows(data, kSequence, /*seed=*/1);
  std::vector<int64_t> ids(kSequence, -1), targets(kSequence, -1);
  for (int64_t number = 0; number < 64; ++number) windows.read(number, ids, targets);
  EXPECT_LT(touched_pages() - before, 5000);  // the file has 4.9 million
  EXPECT_EQ(ids, std::vector<int64_t>(kSequence, 0));
  EXPECT_EQ(windows.epoch(), (kTokens - (1 << 20) - 1) / kSequence);
  EXPECT_EQ(data.validation_tokens(), 1 << 20);
}

TEST(SparseShard, NanogptsIsNotRead) {
  const test::Scratch scratch;
  const std::string file = scratch.file("train.bin", "");
  std::filesystem::resize_file(file, 2 * kTokens);
  expect_a_first_batch({.path = file, .format = ShardFormat::nanogpt});
}

TEST(SparseShard, MegatronsIsNotRead) {
  const test::Scratch scratch;
  const int64_t sequences = 5, each = kTokens / sequences;
  test::Tokens lengths(sequences, each), offsets, starts;
  for (int64_t i = 0; i < sequences; ++i) offsets.push_back(2 * each * i), starts.push_back(i);
  starts.push_back(sequences);
  scratch.file("a.idx", std::string("MMIDIDX\0\0", 9) + test::number(1, 8) + test::number(8, 1) +
                            test::number(sequences, 8) + test::number(sequences + 1, 8) + test::numbers(lengths, 4) +
                            test::numbers(offsets, 8) + test::numbers(starts, 8));
  const std::string file = scratch.file("a.bin", "");
  std::filesystem::resize_file(file, 2 * kTokens);
  expect_a_first_batch({.path = file, .format = ShardFormat::megatron});
}

}  // namespace
}  // namespace axonn
