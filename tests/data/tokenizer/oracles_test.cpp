// Ids, texts and hashes equal those of Hugging Face's tokenizers and of SentencePiece.
#include "data/tokenizer/oracles.hpp"

#include <algorithm>
#include <map>

#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr const char* kHash = "sha256 of the ids as little-endian uint32";

class Oracles : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    AXONN_NEEDS_ORACLES();
    for (json& one : test::read_lines(test::kOracles / "cases.jsonl")) {
      names_.push_back(one.at("name").get<std::string>());
      cases_[names_.back()] = std::move(one);
    }
  }

  // The input: bytes that are not UTF-8 as they are.
  std::string input_of(const std::string& name) const {
    const json& one = cases_.at(name);
    return one.contains("bytes") ? test::from_base64(one.at("bytes").get<std::string>())
                                 : one.at("text").get<std::string>();
  }

  std::string joined_texts() const {
    std::string all;
    for (const std::string& name : names_)
      all += (all.empty() && name == names_.front() ? "" : "\n") + cases_.at(name).at("text").get<std::string>();
    return all;
  }

  std::filesystem::path folder() const { return test::kOracles / GetParam(); }

  std::vector<std::string> names_;
  std::map<std::string, json> cases_;
};

TEST_P(Oracles, EveryCaseHasTheSameIdsAndText) {
  const auto tokenizer = Tokenizer::from_files(folder());
  int64_t seen = 0;
  for (const json& expected : test::read_lines(folder() / "ids.jsonl")) {
    const auto name = expected.at("name").get<std::string>();
    const std::string input = input_of(name);
    const auto ids = expected.at("ids").get<Ids>();
    EXPECT_EQ(tokenizer.encode(input, {.find_special = true}), ids) << name;
    EXPECT_EQ(tokenizer.decode(ids), expected.at("decoded").get<std::string>()) << name;
    // Those of SentencePiece were made without any special token.
    if (tokenizer.files().back().extension() != ".model") {
      const EncodeOptions around = {.find_special = true, .add_special = true};
      EXPECT_EQ(tokenizer.encode(input, around), expected.value("with_special", ids)) << name;
    }
    ++seen;
  }
  EXPECT_GT(seen, 1200);
}

TEST_P(Oracles, StreamedTokensAreTheWholeText) {
  const auto tokenizer = Tokenizer::from_files(folder());
  for (const json& expected : test::read_lines(folder() / "ids.jsonl")) {
    const auto ids = expected.at("ids").get<Ids>();
    std::string text = tokenizer.decode(std::span(ids).first(std::min<size_t>(1, ids.size())));
    for (size_t i = 1; i < ids.size(); ++i) text += tokenizer.bytes_of(ids[i]);
    EXPECT_EQ(text, expected.at("decoded").get<std::string>()) << expected.at("name");
  }
}

TEST_P(Oracles, WholeTextsHaveTheSameHash) {
  if (!std::filesystem::exists(folder() / "corpora.json")) GTEST_SKIP() << GetParam() << " has no hashes";
  const auto tokenizer = Tokenizer::from_files(folder());
  const json corpora = json::parse(test::read(folder() / "corpora.json"));
  for (const auto& [name, expected] : corpora.items()) {
    const bool cases = name.starts_with("all cases");
    const std::string text = cases ? joined_texts() : test::read(test::kOracles.parent_path() / name);
    const Ids ids = tokenizer.encode(text, {.find_special = true});
    EXPECT_EQ(std::ssize(ids), expected.at("tokens").get<int64_t>()) << name;
    EXPECT_EQ(test::sha256_of(ids), expected.at(kHash).get<std::string>()) << name;
    EXPECT_TRUE(cases || tokenizer.decode(ids) == text) << name;  // some cases change: U+2581, NFC
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, Oracles,
                         testing::Values("gpt2", "gpt2_like", "llama3_like", "qwen2_like", "smollm_like",
                                         "sentencepiece", "sentencepiece_json"),
                         [](const auto& one) { return std::string(one.param); });

TEST(OracleHelpers, HashesAreThoseOfTheStandard) {
  EXPECT_EQ(test::sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(test::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace axonn
