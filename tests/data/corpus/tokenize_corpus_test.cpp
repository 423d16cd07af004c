#include "axonn/data/corpus/tokenize_corpus.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "axonn/core/log.hpp"
#include "axonn/data/shards/token_shard.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "data/corpus/packed_texts.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

struct Stop {};

constexpr int64_t kChunk = 1 << 15;

class TokenizedCorpus : public testing::Test {
 protected:
  TokenizedCorpus() { log::configure({.level = log::Level::off}); }
  ~TokenizedCorpus() override { log::configure({}); }

  TokenizeOptions of_bytes(std::vector<std::string> inputs, const std::string& out = "out") const {
    return {.inputs = std::move(inputs),
            .out = scratch / out,
            .tokenizer = "bytes",
            .adds_end = false,
            .chunk_bytes = kChunk};
  }
  TokenizeOptions of_files(const test::Json& tokenizer, std::vector<std::string> inputs) const {
    return {.inputs = std::move(inputs), .out = scratch / "out", .tokenizer = scratch.file("t.json", tokenizer.dump())};
  }

  // The documents of a shard.
  std::vector<Ids> documents(const std::string& out = "out") const {
    const TokenShard shard = TokenShard::open(scratch / out);
    shard.check_documents();
    std::vector<Ids> all;
    for (int64_t i = 0; i < shard.documents(); ++i) {
      const auto [begin, end] = shard.document(i);
      shard.read(begin, std::span(all.emplace_back(static_cast<size_t>(end - begin))));
    }
    return all;
  }

  // All result files by the ends of their names.
  std::map<std::string, std::string> results(const std::string& out = "out") const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(scratch.path())) {
      const std::string name = fs::relative(entry.path(), scratch.path());
      if (entry.is_regular_file() && name.starts_with(out + ".")) files[name.substr(out.size())] = test::read(entry);
    }
    return files;
  }

  // Lines of JSON for some chunks, with texts of all kinds.
  std::string long_lines() const {
    std::string lines;
    for (int i = 0; lines.size() < 5 * kChunk + kChunk / 2; ++i) {
      const std::string words = "line " + std::to_string(i) + ", caf\u00e9 and hello " + std::to_string(i * i % 9973);
      std::string text = i % 100 == 0 ? "" : words;
      for (int more = i * 7 % 50; more > 0; --more) text += " " + words;
      lines += R"({"text": ")" + text + (i % 70 == 1 ? "\xff" : "") + "\"}\n" + (i % 200 == 5 ? "broken\n" : "");
    }
    return scratch.file("lines.jsonl", lines);
  }

  test::Scratch scratch;
};

Ids ids_of(std::string_view text) { return Tokenizer::bytes().encode(text); }

TEST_F(TokenizedCorpus, DocumentsFollowTheInputs) {
  const std::string lines = R"({"text": "one"})"
                            "\n"
                            R"({"text": ""})"
                            "\n"
                            R"({"text": "t"})"
                            "\n";
  scratch.file("d/a.txt", "text\r\n");
  const TokenizeSummary summary =
      tokenize_corpus(of_bytes({scratch.file("1.jsonl.zst", test::zstded(lines)), scratch / "d",
                                scratch.file("caf\xe9", std::string("\xff\0", 2)), scratch.file("empty", "")}));
  EXPECT_EQ(documents(), (std::vector<Ids>{ids_of("one"), ids_of("t"), ids_of("text\r\n"), {255, 0}}));
  EXPECT_EQ(summary.documents, 4);
  EXPECT_EQ(summary.tokens, 12);
  EXPECT_EQ(summary.bytes, 12);
  EXPECT_EQ(summary.empty_documents, 2);
  EXPECT_EQ(summary.replaced, 0);
  const auto files = results();
  EXPECT_EQ(files.size(), 3U);  // .bin, .idx, .json
  const auto written = nlohmann::json::parse(files.at(".json"));
  EXPECT_EQ(written["documents"], 4);
  EXPECT_EQ(written["tokens"], 12);
  EXPECT_EQ(written["files"], 4);
  EXPECT_EQ(written["type"], "uint16");
  EXPECT_EQ(written["end_token"], nullptr);
}

TEST_F(TokenizedCorpus, DocumentsEndWithTheEndToken) {
  TokenizeOptions options =
      of_files(test::byte_level_json(), {scratch.file("a", "hell<|endoftext|>"), scratch.file("b", "x")});
  tokenize_corpus(options);
  const Tokenizer tokenizer = Tokenizer::from_files(options.tokenizer);
  const Ids plain = tokenizer.encode("hell<|endoftext|>");
  ASSERT_GT(plain.size(), 5U);  // typed in a text it is text
  Ids ended = plain;
  ended.push_back(260);
  EXPECT_EQ(documents().at(0), ended);
  EXPECT_EQ(documents().at(1).back(), 260);
  EXPECT_EQ(Tokenizer::from_files(scratch / "out.tokenizer").files_hash(), tokenizer.files_hash());
  EXPECT_EQ(nlohmann::json::parse(results().at(".json"))["end_token"], 260);

  options.overwrite = true;
  options.finds_special = true;
  tokenize_corpus(options);
  EXPECT_EQ(documents().at(0), (Ids{258, 260}));
  options.adds_end = options.finds_special = false;
  tokenize_corpus(options);
  EXPECT_EQ(documents().at(0), plain);
}

TEST_F(TokenizedCorpus, DocumentsBeginAsTheTokenizerSays) {
  TokenizeOptions options = of_files(test::llama2_json(), {scratch.file("a", "ab")});
  tokenize_corpus(options);
  EXPECT_EQ(documents(), (std::vector<Ids>{{1, 263, 2}}));
  options.overwrite = true;
  options.adds_begin = false;
  tokenize_corpus(options);
  EXPECT_EQ(documents(), (std::vector<Ids>{{263, 2}}));
}

TEST_F(TokenizedCorpus, WorkersDoNotChangeTheResult) {
  TokenizeOptions options = {
      .inputs = {long_lines()}, .train_vocabulary = 300, .bad_lines = BadLines::skip, .chunk_bytes = kChunk};
  std::map<std::string, std::string> first;
  for (const int workers : {1, 2, 5}) {
    options.workers = workers;
    options.out = scratch / "out";
    options.overwrite = true;
    const TokenizeSummary summary = tokenize_corpus(options);
    EXPECT_GT(summary.skipped_lines, 0);
    EXPECT_GT(summary.replaced, 2);
    EXPECT_GT(summary.empty_documents, 1);
    if (first.empty()) first = results();
    EXPECT_TRUE(results() == first) << workers;
  }
  EXPECT_EQ(first.size(), 4U);  // with the tokenizer
  const Tokenizer tokenizer = Tokenizer::from_files(scratch / "out.tokenizer");
  const Ids document = documents().at(0);
  EXPECT_EQ(document.back(), tokenizer.end_token());
  EXPECT_TRUE(tokenizer.decode(std::span(document).first(document.size() - 1)).starts_with("line 1, caf"));
}

TEST_F(TokenizedCorpus, AnInterruptedRunGoesOn) {
  TokenizeOptions options = {.inputs = {long_lines()},
                             .out = scratch / "out",
                             .train_vocabulary = 300,
                             .bad_lines = BadLines::skip,
                             .chunk_bytes = kChunk};
  for (const auto format : {ShardFormat::megatron, ShardFormat::llmc}) {
    options.format = format;
    options.resume = false;
    options.progress = nullptr;
    options.seconds_between_saves = 1;
    tokenize_corpus(options);
    const auto whole = results();
    int stops = 0;
    for (const double between : {0.0, 1000.0})
      for (int steps = 0; steps < 20; ++steps) {
        for (const auto& entry : fs::directory_iterator(scratch.path()))
          if (entry.path().filename().string().starts_with("out.")) fs::remove_all(entry);
        options.seconds_between_saves = between;
        options.resume = true;
        int left = steps;
        options.progress = [&](std::string_view, int64_t, int64_t) {
          if (left-- == 0) throw Stop();
        };
        try {
          tokenize_corpus(options);
        } catch (const Stop&) {
          ++stops;
          EXPECT_FALSE(fs::exists(scratch / "out.bin"));
        }
        options.progress = nullptr;
        if (left < 0) tokenize_corpus(options);
        EXPECT_TRUE(results() == whole) << steps;
      }
    EXPECT_GT(stops, 10);
    for (const auto& [suffix, content] : whole) fs::remove_all((scratch / "out").string() + suffix);
    fs::remove_all(scratch / "out.tokenizer");
  }
}

// A run that was stopped after the first chunk.
class StoppedCorpus : public TokenizedCorpus {
 protected:
  StoppedCorpus() {
    options = of_bytes({long_lines()});
    options.bad_lines = BadLines::skip;
    int left = 4;
    options.progress = [&](std::string_view, int64_t, int64_t) {
      if (left-- == 0) throw Stop();
    };
    EXPECT_THROW(tokenize_corpus(options), Stop);
    options.progress = nullptr;
    options.resume = true;
    EXPECT_TRUE(fs::exists(scratch / "out.partial/state.json"));
  }

  std::map<std::string, std::string> whole() {
    TokenizeOptions fresh = options;
    fresh.out = scratch / "whole";
    tokenize_corpus(fresh);
    return results("whole");
  }

  TokenizeOptions options;
};

TEST_F(StoppedCorpus, WhatWasWrittenLaterIsCutOff) {
  for (const char* name : {"shard.bin", "shard.idx"}) {
    const std::string path = scratch / "out.partial" / name;
    scratch.file(std::string("out.partial/") + name, test::read(path) + std::string(1000, 'x'));
  }
  tokenize_corpus(options);
  EXPECT_TRUE(results() == whole());
}

TEST_F(StoppedCorpus, ItGoesOnBehindTheSavedState) {
  int fresh = 0, resumed = 0;
  options.progress = [&](std::string_view, int64_t, int64_t) { ++resumed; };
  tokenize_corpus(options);
  options.progress = [&](std::string_view, int64_t, int64_t) { ++fresh; };
  whole();
  EXPECT_EQ(resumed, fresh - 1);  // the first chunk was saved
}

TEST_F(StoppedCorpus, ItIsNotOverwrittenByAccident) {
  options.resume = false;
  EXPECT_USER_ERROR(tokenize_corpus(options), "out.partial holds a tokenization that has not ended", "--resume");
  options.overwrite = true;
  tokenize_corpus(options);
  EXPECT_TRUE(results() == whole());
}

TEST_F(StoppedCorpus, ChangedInputsAreRefused) {
  const std::string path = options.inputs[0], text = test::read(path);
  const auto time = fs::last_write_time(path);
  scratch.file("lines.jsonl", text + "\n");
  EXPECT_USER_ERROR(tokenize_corpus(options), "lines.jsonl has changed since", "--overwrite");
  scratch.file("lines.jsonl", text);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_USER_ERROR(tokenize_corpus(options), "lines.jsonl has changed since");
  options.inputs.push_back(path);
  EXPECT_USER_ERROR(tokenize_corpus(options), "begun with 1 files, now there are 2");
  options.inputs.pop_back();
  fs::last_write_time(path, time);
  options.workers = 3;  // may differ
  tokenize_corpus(options);
}

TEST_F(StoppedCorpus, ChangedOptionsAreRefused) {
  const TokenizeOptions before = options;
  options.text_key = "body";
  EXPECT_USER_ERROR(tokenize_corpus(options), "begun with --text-key \"text\", now it is \"body\"");
  options = before;
  options.format = ShardFormat::llmc;
  EXPECT_USER_ERROR(tokenize_corpus(options), "--format");
  options = before;
  options.tokenizer = scratch.file("t.json", test::byte_level_json().dump());
  EXPECT_USER_ERROR(tokenize_corpus(options), "--tokenizer \"bytes\"");
}

TEST_F(StoppedCorpus, DamagedBeginningsAreRefused) {
  const std::string state = test::read(scratch / "out.partial/state.json");
  for (const std::string& bad : {std::string("{"), std::string("{\"file\": 0}"), std::string()}) {
    scratch.file("out.partial/state.json", bad);
    EXPECT_USER_ERROR(tokenize_corpus(options), "state.json", "--overwrite");
  }
  scratch.file("out.partial/state.json", state);
  std::string bytes = test::read(scratch / "out.partial/shard.bin");
  bytes[100] = 'x';
  scratch.file("out.partial/shard.bin", bytes);
  EXPECT_USER_ERROR(tokenize_corpus(options), "shard.bin is not what was written before");
  fs::remove(scratch / "out.partial/shard.bin");
  EXPECT_USER_ERROR(tokenize_corpus(options), "shard.bin has 0 bytes");
}

TEST_F(StoppedCorpus, OneProcessAtATimeHasIt) {
  const int other = ::open((scratch / "out.partial/lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_USER_ERROR(tokenize_corpus(options), "another process writes", "out.partial");
  ::close(other);
  tokenize_corpus(options);
}

TEST_F(StoppedCorpus, NamesThatWereGivenBeforeAKillStay) {
  const auto job = test::read(scratch / "out.partial/job.json");
  auto state = nlohmann::json::parse(test::read(scratch / "out.partial/state.json"));
  const auto expected = whole();
  tokenize_corpus(options);
  scratch.file("out.partial/job.json", job);
  state["complete"] = true;
  scratch.file("out.partial/state.json", state.dump());
  fs::rename(scratch / "out.json", scratch / "out.partial/summary.json");
  fs::rename(scratch / "out.idx", scratch / "out.partial/shard.idx");
  tokenize_corpus(options);
  EXPECT_TRUE(results() == expected);
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
}

TEST_F(TokenizedCorpus, ABadLineIsCorrectedBySkippingIt) {
  TokenizeOptions options = of_bytes({long_lines()});
  options.seconds_between_saves = 0;
  EXPECT_USER_ERROR(tokenize_corpus(options), "lines.jsonl line 7 has no text");
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));  // nothing was done
  const std::string good = R"({"text": ")" + std::string(50'000, 'a') + "\"}\n";
  options.inputs = {scratch.file("more.jsonl", good + "broken\n" + good)};
  EXPECT_USER_ERROR(tokenize_corpus(options), "more.jsonl line 2 has no text");
  options.resume = true;
  options.bad_lines = BadLines::skip;
  EXPECT_EQ(tokenize_corpus(options).skipped_lines, 1);
  EXPECT_EQ(documents().size(), 2U);
}

TEST_F(TokenizedCorpus, ResultsAreReplacedOnlyWhenAsked) {
  TokenizeOptions options = of_bytes({scratch.file("a", "text")});
  tokenize_corpus(options);
  const auto before = results();
  options.inputs = {scratch.file("b", "other text")};
  EXPECT_USER_ERROR(tokenize_corpus(options), "out.bin is there already", "--overwrite");
  options.resume = true;
  EXPECT_USER_ERROR(tokenize_corpus(options), "out.bin is there already");
  EXPECT_EQ(results(), before);
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
  options.overwrite = true;
  options.format = ShardFormat::llmc;
  tokenize_corpus(options);
  EXPECT_FALSE(fs::exists(scratch / "out.idx"));
  EXPECT_EQ(TokenShard::open(scratch / "out.bin").format(), ShardFormat::llmc);
  EXPECT_EQ(TokenShard::open(scratch / "out.bin").tokens(), 10);
}

TEST_F(TokenizedCorpus, WrongUseIsRefused) {
  const std::string text = scratch.file("a", "text");
  TokenizeOptions options = of_bytes({text});
  options.adds_end = true;
  EXPECT_USER_ERROR(tokenize_corpus(options), "no token that ends a document", "--no-eos");
  EXPECT_FALSE(fs::exists(scratch / "out.partial"));
  options = of_bytes({text});
  options.train_vocabulary = 500;
  EXPECT_USER_ERROR(tokenize_corpus(options), "one of --tokenizer and --train-bpe");
  options.tokenizer = "";
  options.train_vocabulary = 256;
  EXPECT_USER_ERROR(tokenize_corpus(options), "--train-bpe must be at least 257");
  options = of_bytes({text});
  options.workers = -1;
  EXPECT_USER_ERROR(tokenize_corpus(options), "--workers must not be negative");
  options = of_bytes({text});
  options.out = scratch.path() / "";
  EXPECT_USER_ERROR(tokenize_corpus(options), "--out must be what the names of the results begin with");
  options.out = scratch / "a/b";
  EXPECT_USER_ERROR(tokenize_corpus(options), "cannot make the directory");
}

}  // namespace
}  // namespace axonn
