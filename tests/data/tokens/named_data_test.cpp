#include "axonn/data/tokens/named_data.hpp"

#include <gtest/gtest.h>

#include "data/shards/shard_files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

class NamedDataTest : public testing::Test {
 protected:
  void SetUp() override {
    const test::MegatronFiles files = test::megatron_files({{1, 2, 3}}, {0}, 2);
    scratch.file("m.bin", files.tokens);
    scratch.file("m.idx", files.index);
    scratch.file("l.bin", test::llmc_file({1, 2, 3}, 2));
    scratch.file("n.bin", std::string("\x01\0\x02\0", 4));
    scratch.file("t.txt", "text");
    scratch.file("t.bin", "text");
  }

  NamedData one(const std::string& word) const { return named_data({word}, "--data").front(); }
  std::optional<ShardFormat> format_of(const std::string& name) const { return one((scratch / name).string()).format; }

  test::Scratch scratch;
};

TEST_F(NamedDataTest, ShardsAreKnownByTheirFiles) {
  for (const char* name : {"m", "m.bin", "m.idx"}) EXPECT_EQ(format_of(name), ShardFormat::megatron) << name;
  for (const char* name : {"l", "l.bin"}) EXPECT_EQ(format_of(name), ShardFormat::llmc) << name;
  for (const char* name : {"t.txt", "t.bin", "", "none"}) EXPECT_EQ(format_of(name), std::nullopt) << name;
}

TEST_F(NamedDataTest, AFormatBeforeThePathDecides) {
  const std::string file = (scratch / "n.bin").string();
  for (const auto& [word, format] :
       {std::pair<const char*, std::optional<ShardFormat>>{"nanogpt", ShardFormat::nanogpt},
        {"megatron", ShardFormat::megatron},
        {"llmc", ShardFormat::llmc},
        {"text", std::nullopt}}) {
    EXPECT_EQ(one(word + (":" + file)).format, format);
    EXPECT_EQ(one(word + (":" + file)).path, file);
  }
  EXPECT_EQ(one("other:n.bin").path, "other:n.bin");
}

TEST_F(NamedDataTest, NumbersOfTokensAreNotTakenForText) {
  EXPECT_USER_ERROR(format_of("n.bin"), "n.bin is no text, and no shard that is known", "nanogpt:", "text:");
}

TEST_F(NamedDataTest, WeightsStandBeforeEachPath) {
  const auto blend = named_data({"0.7", "a", "3", "b"}, "--data");
  ASSERT_EQ(blend.size(), 2U);
  EXPECT_EQ(blend[0].path, "a");
  EXPECT_EQ(blend[0].weight, 700'000'000);
  EXPECT_EQ(blend[1].path, "b");
  EXPECT_EQ(blend[1].weight, 3'000'000'000);
  EXPECT_EQ(named_data({"a", "0.7"}, "--data").front().weight, 0);
  EXPECT_EQ(named_data({"7"}, "--data").front().path, "7");
  EXPECT_TRUE(named_data({}, "--data").empty());
  EXPECT_USER_ERROR(named_data({"0.7", "a", "b"}, "--data"), "with weights, --data takes a number and a path in turns",
                    "b has no weight");
  EXPECT_USER_ERROR(named_data({"0.7", "a", "b", "c"}, "--data"), "b has no weight");
  EXPECT_USER_ERROR(named_data({"0.7", "a", "0.3"}, "--data"), "0.3 has no path");
  EXPECT_USER_ERROR(named_data({"0", "a"}, "--data"), "the weight of a must be a decimal number above 0");
}

}  // namespace
}  // namespace axonn
