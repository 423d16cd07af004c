#include "axonn/data/shards/token_shard.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "data/shards/shard_files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Tokens;

const std::vector<Tokens> kSequences = {{1, 2, 3}, {65499}, {}, {7, 8}};
const Tokens kDocuments = {0, 1, 1, 3};  // the second has nothing in it

template <typename Number = int64_t>
std::vector<Number> all_of(const TokenShard& shard) {
  std::vector<Number> tokens(static_cast<size_t>(shard.tokens()));
  shard.read(0, std::span(tokens));
  return tokens;
}

class TokenShards : public testing::Test {
 protected:
  // Writes a pair, and returns the name that both begin with.
  std::string write(const test::MegatronFiles& files) const {
    scratch.file("a.bin", files.tokens);
    scratch.file("a.idx", files.index);
    return scratch / "a";
  }
  std::string write_index(size_t at, const std::string& bytes) const {
    test::MegatronFiles files = test::megatron_files(kSequences, kDocuments, 2);
    files.index.replace(at, bytes.size(), bytes);
    return write(files);
  }

  test::Scratch scratch;
};

TEST_F(TokenShards, MegatronsHaveTokensAndDocuments) {
  for (const int width : {2, 4}) {
    const std::string name = write(test::megatron_files(kSequences, kDocuments, width));
    for (const std::string& path : {name, name + ".bin", name + ".idx"}) {
      const TokenShard shard = TokenShard::open(path);
      EXPECT_EQ(shard.format(), ShardFormat::megatron);
      EXPECT_EQ(shard.type(), width == 2 ? TokenType::uint16 : TokenType::int32);
      EXPECT_EQ(all_of(shard), (Tokens{1, 2, 3, 65499, 7, 8}));
      ASSERT_EQ(shard.documents(), 4);
      std::vector<Tokens> documents;
      for (int64_t i = 0; i < 4; ++i) documents.push_back({shard.document(i).begin, shard.document(i).end});
      EXPECT_EQ(documents, (std::vector<Tokens>{{0, 3}, {3, 3}, {3, 4}, {4, 6}}));
      shard.check_documents();
      shard.check_vocabulary(65500);
    }
  }
}

TEST_F(TokenShards, ARangeIsReadInBothWidths) {
  const TokenShard shard = TokenShard::open(write(test::megatron_files(kSequences, kDocuments, 2)));
  std::vector<int32_t> narrow(2);
  shard.read(3, std::span(narrow));
  EXPECT_EQ(narrow, (std::vector<int32_t>{65499, 7}));
  std::vector<int64_t> wide(3);
  shard.read(2, std::span(wide));
  EXPECT_EQ(wide, (Tokens{3, 65499, 7}));
  shard.read(6, std::span(narrow).first(0));
  EXPECT_USER_ERROR(shard.read(5, std::span(narrow)), "a.bin has 6 tokens", "no 2 from number 5");
  EXPECT_USER_ERROR(shard.read(-1, std::span(narrow)), "from number -1");
  EXPECT_USER_ERROR(shard.document(4), "4 documents", "no number 4");
  EXPECT_USER_ERROR(shard.document(-1), "no number -1");
}

TEST_F(TokenShards, ModesOfAnIndexAreSteppedOver) {
  test::MegatronFiles files = test::megatron_files(kSequences, kDocuments, 2);
  files.index += std::string(4, '\0');
  EXPECT_EQ(TokenShard::open(write(files)).documents(), 4);
  files.index += '\0';
  EXPECT_USER_ERROR(TokenShard::open(write(files)), "a.idx", "do not fit the 4 sequences", "copy it again");
}

TEST_F(TokenShards, AnEmptyPairHasNothing) {
  const TokenShard shard = TokenShard::open(write(test::megatron_files({}, {}, 2)));
  EXPECT_EQ(shard.tokens(), 0);
  EXPECT_EQ(shard.documents(), 0);
  shard.check_documents();
  shard.check_vocabulary(1);
}

TEST_F(TokenShards, LlmcsAreKnownByTheirFirstBytes) {
  for (const int width : {2, 4}) {
    const Tokens tokens = {5, 6, width == 2 ? 65535 : 128255};
    const TokenShard shard = TokenShard::open(scratch.file("l.bin", test::llmc_file(tokens, width)));
    EXPECT_EQ(shard.format(), ShardFormat::llmc);
    EXPECT_EQ(shard.type(), width == 2 ? TokenType::uint16 : TokenType::uint32);
    EXPECT_EQ(all_of(shard), tokens);
    EXPECT_EQ(shard.documents(), 0);
    shard.check_documents();  // there are none
    EXPECT_USER_ERROR(shard.document(0), "l.bin has 0 documents");
  }
}

TEST_F(TokenShards, NanogptsAreReadOnlyWhenNamed) {
  const std::string file = scratch.file("train.bin", test::numbers({50256, 1, 2}, 2));
  EXPECT_EQ(all_of(TokenShard::open(file, ShardFormat::nanogpt)), (Tokens{50256, 1, 2}));
  EXPECT_USER_ERROR(TokenShard::open(file), "train.bin", "nanoGPT's must be named as such");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("odd.bin", "abc"), ShardFormat::nanogpt), "odd.bin has 3 bytes",
                    "copy it again");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("l.bin", test::llmc_file({1}, 2)), ShardFormat::nanogpt),
                    "as llm.c's files do");
}

TEST_F(TokenShards, OtherFilesAreRefused) {
  EXPECT_USER_ERROR(TokenShard::open(scratch / "none"), "cannot read", "none", "No such file");
  EXPECT_USER_ERROR(TokenShard::open(scratch.path()), "is no file");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("text.txt", "some text")), "text.txt is no shard", ".idx beside it");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("only.idx", "")), "needs", "only.bin");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("b.bin", ""), ShardFormat::megatron), "needs", "b.idx");
  EXPECT_USER_ERROR(TokenShard::open(scratch.file("t", "some text"), ShardFormat::llmc), "no shard of llm.c's");
}

TEST_F(TokenShards, TornOrForeignLlmcsAreRefused) {
  const std::string whole = test::llmc_file({1, 2, 3}, 2);
  const auto open = [&](std::string bytes, size_t at = 0, const std::string& change = "") {
    bytes.replace(at, change.size(), change);
    return TokenShard::open(scratch.file("l.bin", bytes));
  };
  EXPECT_USER_ERROR(open(whole.substr(0, 100)), "a header of 1024 bytes");
  EXPECT_USER_ERROR(open(whole.substr(0, whole.size() - 1)), "3 tokens of its header need 1030", "copy it again");
  EXPECT_USER_ERROR(open(whole + "x"), "has 1031 bytes");
  EXPECT_USER_ERROR(open(whole, 4, test::number(2, 4)), "has version 2", "only version 1");
  EXPECT_USER_ERROR(open(whole, 0, test::number(20240801, 4)), "has version 1", "only version 7");
  EXPECT_USER_ERROR(open(whole, 0, test::number(20240522, 4)), "questions", "--choices");
  EXPECT_USER_ERROR(open(whole, 8, test::number(-1, 4)), "4294967295 tokens");
}

TEST_F(TokenShards, DamagedIndexesAreRefused) {
  EXPECT_USER_ERROR(TokenShard::open(write_index(0, "MMIDIDY")), "a.idx is no index of Megatron's");
  EXPECT_USER_ERROR(TokenShard::open(write_index(9, test::number(2, 8))), "has version 2");
  EXPECT_USER_ERROR(TokenShard::open(write_index(17, test::number(7, 1))), "type 7", "uint16");
  test::MegatronFiles files = test::megatron_files(kSequences, kDocuments, 2);
  files.index.resize(20);
  EXPECT_USER_ERROR(TokenShard::open(write(files)), "a header of 34 bytes");
  files = test::megatron_files(kSequences, kDocuments, 2);
  files.index.pop_back();
  EXPECT_USER_ERROR(TokenShard::open(write(files)), "cut short or damaged");
}

TEST_F(TokenShards, ClaimedCountsTakeNoMemory) {
  for (const int64_t claimed : {int64_t{1} << 60, int64_t{-1}, int64_t{1} << 32, int64_t{5}}) {
    EXPECT_USER_ERROR(TokenShard::open(write_index(18, test::number(claimed, 8))), "do not fit");
    EXPECT_USER_ERROR(TokenShard::open(write_index(26, test::number(claimed + (claimed == 5), 8))), "do not fit");
  }
  EXPECT_USER_ERROR(TokenShard::open(write_index(26, test::number(0, 8))), "0 starts of documents");
}

TEST_F(TokenShards, FilesOfDifferentPairsAreRefused) {
  test::MegatronFiles files = test::megatron_files(kSequences, kDocuments, 2);
  for (const std::string& tokens : {files.tokens + "12", files.tokens.substr(2), std::string()}) {
    EXPECT_USER_ERROR(TokenShard::open(write({tokens, files.index})), "do not belong together", "copy both again");
  }
}

// The places of an index of four sequences.
constexpr size_t kLengths = 34, kOffsets = kLengths + 16, kStarts = kOffsets + 32;

TEST_F(TokenShards, PlacesBeyondTheTokensAreRefused) {
  EXPECT_USER_ERROR(TokenShard::open(write_index(kOffsets, test::number(2, 8))), "do not belong together");
  EXPECT_USER_ERROR(TokenShard::open(write_index(kOffsets + 24, test::number(1000, 8))), "do not belong together");
  EXPECT_USER_ERROR(TokenShard::open(write_index(kLengths + 12, test::number(-2, 4))), "do not belong together");
  EXPECT_USER_ERROR(TokenShard::open(write_index(kStarts, test::number(1, 8))), "from the first of its 4 sequences");
  EXPECT_USER_ERROR(TokenShard::open(write_index(kStarts + 32, test::number(3, 8))), "to the last");
  for (const int64_t offset : {int64_t{1} << 60, int64_t{-2}, int64_t{7}, std::numeric_limits<int64_t>::min()}) {
    const TokenShard shard = TokenShard::open(write_index(kOffsets + 8, test::number(offset, 8)));
    EXPECT_USER_ERROR(shard.document(2), "a.idx has document 2", "copy it again");
    EXPECT_USER_ERROR(shard.check_documents(), "damaged at sequence 1");
    EXPECT_EQ(all_of(shard).size(), 6U);  // tokens need no index
  }
  for (const int64_t start : {int64_t{1} << 60, int64_t{-1}, int64_t{4}}) {
    const TokenShard shard = TokenShard::open(write_index(kStarts + 8, test::number(start, 8)));
    EXPECT_USER_ERROR(shard.document(1), "a.idx has document 1");
    EXPECT_USER_ERROR(shard.check_documents(), "copy it again");
  }
  const TokenShard shard = TokenShard::open(write_index(kLengths, test::number(2, 4)));
  EXPECT_USER_ERROR(shard.check_documents(), "damaged at sequence 1", "does not belong to");
}

TEST_F(TokenShards, IdsBeyondTheVocabularyAreNamed) {
  const TokenShard shard = TokenShard::open(write(test::megatron_files(kSequences, kDocuments, 2)));
  shard.check_vocabulary(65500);
  EXPECT_USER_ERROR(shard.check_vocabulary(65499), "a.bin has id 65499 as token 3", "vocabulary has 65499");
  EXPECT_USER_ERROR(TokenShard::open(write(test::megatron_files({{1, -5}}, {0}, 4))).check_vocabulary(100),
                    "has id -5 as token 1");
  const std::string wide = scratch.file("l.bin", test::llmc_file({1, 4294967295}, 4));
  EXPECT_USER_ERROR(TokenShard::open(wide).check_vocabulary(128256), "has id 4294967295 as token 1");
}

// A sparse file of 20 GB is opened and read at its end at once.
TEST_F(TokenShards, LargeFilesAreOpenedWithoutReadingThem) {
  constexpr int64_t kTokens = 10'000'000'000;
  const std::string index = std::string("MMIDIDX\0\0", 9) + test::number(1, 8) + test::number(8, 1) +
                            test::number(2, 8) + test::number(2, 8) + test::number(5, 4) + test::number(6, 4) +
                            test::number(0, 8) + test::number(2 * (kTokens - 6), 8) + test::number(0, 8) +
                            test::number(2, 8);
  scratch.file("a.idx", index);
  const std::filesystem::path tokens = scratch.file("a.bin", "");
  std::filesystem::resize_file(tokens, 2 * kTokens);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const TokenShard shard = TokenShard::open(tokens);
  std::vector<int64_t> window(1024);
  shard.read(shard.tokens() - 1024, std::span(window));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(shard.tokens(), kTokens);
  EXPECT_LT(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt, 1000);  // pages
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10);                                   // KiB
}

}  // namespace
}  // namespace axonn
