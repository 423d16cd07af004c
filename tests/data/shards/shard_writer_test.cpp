#include "axonn/data/shards/shard_writer.hpp"

#include <filesystem>

#include <gtest/gtest.h>

#include "axonn/data/shards/token_shard.hpp"
#include "data/shards/shard_files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Documents = std::vector<std::vector<int32_t>>;
using test::Tokens;

const Documents kDocuments = {{1, 2, 3}, {}, {99}, {7, 8}};

void write(ShardWriter& writer, const Documents& documents) {
  for (const auto& document : documents) writer.append(document);
}

TEST(ShardWriter, BytesAreThoseOfEachFormat) {
  const test::Scratch scratch;
  for (const int64_t vocabulary : {65499, 65500}) {
    ShardWriter writer(scratch / "m", ShardFormat::megatron, vocabulary);
    write(writer, kDocuments);
    writer.finish();
    const auto expected = test::megatron_files({{1, 2, 3}, {}, {99}, {7, 8}}, {0, 1, 2, 3}, vocabulary < 65500 ? 2 : 4);
    EXPECT_EQ(test::read(scratch / "m.bin"), expected.tokens);
    EXPECT_EQ(test::read(scratch / "m.idx"), expected.index);
  }
  for (const int64_t vocabulary : {65536, 65537}) {
    ShardWriter writer(scratch / "l", ShardFormat::llmc, vocabulary);
    write(writer, kDocuments);
    writer.finish();
    EXPECT_EQ(test::read(scratch / "l.bin"), test::llmc_file({1, 2, 3, 99, 7, 8}, vocabulary < 65537 ? 2 : 4));
    EXPECT_FALSE(std::filesystem::exists(scratch / "l.idx"));
  }
  ShardWriter writer(scratch / "n", ShardFormat::nanogpt, 65536);
  write(writer, kDocuments);
  writer.finish();
  EXPECT_EQ(test::read(scratch / "n.bin"), test::numbers({1, 2, 3, 99, 7, 8}, 2));
}

TEST(ShardWriter, WhatIsWrittenIsReadAgain) {
  const test::Scratch scratch;
  Documents documents(3000);
  for (size_t i = 0; i < documents.size(); ++i)
    for (size_t token = 0; token < i % 1013; ++token)
      documents[i].push_back(static_cast<int32_t>((i * 7919 + token * 104729) % 100000));
  ShardWriter writer(scratch / "m", ShardFormat::megatron, 100000);
  write(writer, documents);
  writer.finish();
  const TokenShard shard = TokenShard::open(scratch / "m");
  shard.check_documents();
  shard.check_vocabulary(100000);
  ASSERT_EQ(shard.documents(), std::ssize(documents));
  for (size_t i = 0; i < documents.size(); ++i) {
    const auto [begin, end] = shard.document(static_cast<int64_t>(i));
    std::vector<int32_t> read(static_cast<size_t>(end - begin));
    shard.read(begin, std::span(read));
    EXPECT_EQ(read, documents[i]) << i;
  }
}

TEST(ShardWriter, AnUnfinishedFileIsRefused) {
  const test::Scratch scratch;
  ShardWriter megatron(scratch / "m", ShardFormat::megatron, 100), llmc(scratch / "l", ShardFormat::llmc, 100);
  for (ShardWriter* writer : {&megatron, &llmc}) {
    write(*writer, kDocuments);
    writer->sync();
  }
  EXPECT_USER_ERROR(TokenShard::open(scratch / "m"), "m.idx is no index", "may not have ended");
  EXPECT_USER_ERROR(TokenShard::open(scratch / "l.bin"), "is no shard");
}

TEST(ShardWriter, TheHashIsTheSameForEveryFormat) {
  const test::Scratch scratch;
  EXPECT_EQ(ShardWriter(scratch / "e", ShardFormat::megatron, 100).state().hash, ShardWriter::State().hash);
  uint64_t first = 0;
  for (const auto format : {ShardFormat::megatron, ShardFormat::llmc, ShardFormat::nanogpt})
    for (const int64_t vocabulary : {100, 65536}) {
      ShardWriter writer(scratch / "m", format, vocabulary);
      write(writer, kDocuments);
      const ShardWriter::State state = writer.state();
      EXPECT_EQ(state.tokens, 6);
      EXPECT_EQ(state.documents, 4);
      if (first == 0) first = state.hash;
      EXPECT_EQ(state.hash, first);
    }
  EXPECT_EQ(first, 0xb3820f2500082e1cU);  // by Python's xxhash
}

TEST(ShardWriter, WritingGoesOnWhereItWasSynced) {
  const test::Scratch scratch;
  for (const auto format : {ShardFormat::megatron, ShardFormat::llmc}) {
    for (size_t cut = 0; cut <= kDocuments.size(); ++cut) {
      ShardWriter::State state;
      {
        ShardWriter writer(scratch / "m", format, 100);
        for (size_t i = 0; i < cut; ++i) writer.append(kDocuments[i]);
        writer.sync();
        state = writer.state();
        writer.append(std::vector<int32_t>(100, 5));  // a writer that is killed later
        writer.sync();
      }
      ShardWriter writer(scratch / "m", format, 100, state);
      for (size_t i = cut; i < kDocuments.size(); ++i) writer.append(kDocuments[i]);
      writer.finish();
      const auto expected = test::megatron_files({{1, 2, 3}, {}, {99}, {7, 8}}, {0, 1, 2, 3}, 2);
      const bool megatron = format == ShardFormat::megatron;
      EXPECT_EQ(test::read(scratch / "m.bin"), megatron ? expected.tokens : test::llmc_file({1, 2, 3, 99, 7, 8}, 2));
      if (megatron) {
        EXPECT_EQ(test::read(scratch / "m.idx"), expected.index);
      }
    }
  }
}

TEST(ShardWriter, ChangedFilesAreNotWrittenOn) {
  const test::Scratch scratch;
  ShardWriter::State state;
  const auto go_on = [&] { ShardWriter(scratch / "m", ShardFormat::megatron, 100, state); };
  {
    ShardWriter writer(scratch / "m", ShardFormat::megatron, 100);
    write(writer, kDocuments);
    writer.sync();
    state = writer.state();
  }
  go_on();
  std::string bytes = test::read(scratch / "m.bin");
  bytes[1] = 'x';
  scratch.file("m.bin", bytes);
  EXPECT_USER_ERROR(go_on(), "m.bin is not what was written before", "start again");
  scratch.file("m.bin", bytes.substr(0, 5));
  EXPECT_USER_ERROR(go_on(), "m.bin has 5 bytes, and 12 were written before");
  std::filesystem::remove(scratch / "m.bin");
  EXPECT_USER_ERROR(go_on(), "has 0 bytes");
}

TEST(ShardWriter, WhatAFormatCannotHoldIsRefused) {
  const test::Scratch scratch;
  EXPECT_USER_ERROR(ShardWriter(scratch / "n", ShardFormat::nanogpt, 65537), "nanoGPT's files hold ids below 65536");
  EXPECT_USER_ERROR(ShardWriter(scratch / "n", ShardFormat::llmc, 0), "from 1 to 2^31 tokens, got 0");
  ShardWriter writer(scratch / "m", ShardFormat::megatron, 100);
  EXPECT_USER_ERROR(writer.append(std::vector<int32_t>{1, 100}), "token 100 is not in the vocabulary of 100");
  EXPECT_USER_ERROR(writer.append(std::vector<int32_t>{-1}), "token -1");
  EXPECT_EQ(writer.state().documents, 0);
}

}  // namespace
}  // namespace axonn
