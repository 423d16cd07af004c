// Shards that are damaged or written by somebody else are read, or refused by a UserError; the
// sanitizers see a read beyond a file.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "axonn/data/shards/token_shard.hpp"
#include "data/shards/shard_files.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

// Numbers that claim too much, or nearly so.
std::string some_number(fuzz::Random& random) {
  constexpr int64_t kValues[] = {0,
                                 1,
                                 2,
                                 3,
                                 5,
                                 12,
                                 34,
                                 -1,
                                 -2,
                                 1 << 16,
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 int64_t{1} << 60,
                                 int64_t{1} << 61,
                                 std::numeric_limits<int64_t>::min()};
  return test::number(kValues[random.below(std::size(kValues))], random.one_in(2) ? 8 : 4);
}

std::string with_other_numbers(std::string bytes, fuzz::Random& random) {
  for (size_t count = random.below(3); count > 0; --count) {
    const std::string value = some_number(random);
    if (bytes.size() < value.size()) break;
    bytes.replace(random.below(bytes.size() - value.size() + 1), value.size(), value);
  }
  return random.one_in(3) ? fuzz::mutated(bytes, random) : bytes;
}

void use(const TokenShard& shard) {
  std::vector<int64_t> tokens(static_cast<size_t>(std::min<int64_t>(shard.tokens(), 1000)));
  shard.read(0, std::span(tokens));
  shard.read(shard.tokens() - std::ssize(tokens), std::span(tokens));
  fuzz::read([&] { shard.check_vocabulary(100); });
  fuzz::read([&] { shard.check_documents(); });
  for (int64_t number = 0; number < std::min<int64_t>(shard.documents(), 100); ++number)
    fuzz::read([&] {
      const TokenShard::Range range = shard.document(number);
      tokens.resize(static_cast<size_t>(range.end - range.begin));
      shard.read(range.begin, std::span(tokens));
    });
}

TEST(ShardsFuzz, MegatronsAreReadOrRefused) {
  const test::Scratch scratch;
  size_t good = 0, bad = 0;
  fuzz::rounds(3000, [&](fuzz::Random& random) {
    test::MegatronFiles files =
        test::megatron_files({{1, 2, 3}, {}, {99}, {7, 8}}, {0, 1, 1, 3}, random.one_in(2) ? 2 : 4);
    scratch.file("a.bin", random.one_in(6) ? fuzz::mutated(files.tokens, random) : files.tokens);
    scratch.file("a.idx", with_other_numbers(files.index, random));
    ++(fuzz::read([&] { use(TokenShard::open(scratch / "a")); }) ? good : bad);
  });
  EXPECT_GT(good, 100U);
  EXPECT_GT(bad, 100U);
}

TEST(ShardsFuzz, FilesWithoutAnIndexAreReadOrRefused) {
  const test::Scratch scratch;
  size_t good = 0, bad = 0;
  fuzz::rounds(3000, [&](fuzz::Random& random) {
    std::string file = test::llmc_file({1, 2, 99, 4}, random.one_in(2) ? 2 : 4);
    // Most of the header is zeros that nobody reads.
    file = with_other_numbers(file.substr(0, 16), random) + file.substr(16, 1008) +
           with_other_numbers(file.substr(1024), random);
    scratch.file("l.bin", file);
    ++(fuzz::read([&] { use(TokenShard::open(scratch / "l.bin")); }) ? good : bad);
    fuzz::read([&] { use(TokenShard::open(scratch / "l.bin", ShardFormat::nanogpt)); });
  });
  EXPECT_GT(good, 100U);
  EXPECT_GT(bad, 100U);
}

}  // namespace
}  // namespace axonn
