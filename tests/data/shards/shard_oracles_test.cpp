// Shards that megatron-core's own builder has written, and llm.c's layout. They lie outside of the
// repository.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "axonn/data/shards/shard_writer.hpp"
#include "axonn/data/shards/token_shard.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using nlohmann::json;
using Tokens = std::vector<int32_t>;

const std::filesystem::path kShards = AXONN_TOKEN_SHARDS;

class ShardOracles : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kShards / "truth.json"))
      GTEST_SKIP() << "there are no shards of others in " << kShards.lexically_normal().string();
    truth_ = json::parse(test::read(kShards / "truth.json"));
  }

  static Tokens read(const TokenShard& shard, TokenShard::Range range) {
    Tokens tokens(static_cast<size_t>(range.end - range.begin));
    shard.read(range.begin, std::span(tokens));
    return tokens;
  }

  json truth_;
};

TEST_F(ShardOracles, MegatronsAreRead) {
  for (const char* name : {"megatron_uint16", "megatron_int32"}) {
    const TokenShard shard = TokenShard::open(kShards / name);
    const auto sequences = truth_.at(name).at("sequences").get<std::vector<Tokens>>();
    const auto starts = truth_.at(name).at("document_indices").get<std::vector<size_t>>();
    shard.check_documents();
    ASSERT_EQ(shard.documents(), std::ssize(starts) - 1) << name;
    for (size_t document = 0; document + 1 < starts.size(); ++document) {
      Tokens expected;
      for (size_t i = starts[document]; i < starts[document + 1]; ++i)
        expected.insert(expected.end(), sequences[i].begin(), sequences[i].end());
      EXPECT_EQ(read(shard, shard.document(static_cast<int64_t>(document))), expected) << name << ' ' << document;
    }
  }
}

TEST_F(ShardOracles, MegatronsAreWrittenAlike) {
  const test::Scratch scratch;
  ShardWriter writer(scratch / "m", ShardFormat::megatron, 50257);
  for (const Tokens& document : truth_.at("megatron_uint16").at("sequences").get<std::vector<Tokens>>())
    writer.append(document);
  writer.finish();
  for (const char* suffix : {".bin", ".idx"})
    EXPECT_EQ(test::read((scratch / "m").string() + suffix),
              test::read((kShards / "megatron_uint16").string() + suffix))
        << suffix;
}

TEST_F(ShardOracles, LlmcsAreReadAndWrittenAlike) {
  const test::Scratch scratch;
  for (const auto& [name, vocabulary] : std::map<std::string, int64_t>{{"llmc_gpt2", 50257}, {"llmc_llama3", 128256}}) {
    const std::filesystem::path file = kShards / (name + ".bin");
    const TokenShard shard = TokenShard::open(file);
    const auto expected = truth_.at(name).at("tokens").get<Tokens>();
    EXPECT_EQ(read(shard, {.begin = 0, .end = shard.tokens()}), expected) << name;
    shard.check_vocabulary(vocabulary);
    ShardWriter writer(scratch / name, ShardFormat::llmc, vocabulary);
    writer.append(expected);
    writer.finish();
    EXPECT_EQ(test::read(scratch / (name + ".bin")), test::read(file)) << name;
  }
}

}  // namespace
}  // namespace axonn
