// Files that are broken, or that ask for what does not exist here: one sentence each.
#include <functional>

#include <gtest/gtest.h>

#include "axonn/data/tokenizer/tokenizer.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Json;

class TokenizerErrors : public testing::Test {
 protected:
  std::string error_of(const std::string& name, const std::string& content) {
    const auto path = scratch_.file(name, content);
    return test::user_error([&] { Tokenizer::from_files(path); });
  }
  void expect(const std::string& error, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  // The error of a good file after a change.
  void refuses(Json json, const std::function<void(Json&)>& change, const std::vector<std::string>& parts) {
    change(json);
    expect(error_of("tokenizer.json", json.dump()), parts);
  }
  void model_refuses(const test::ModelOptions& options, const std::string& part) {
    expect(error_of("tokenizer.model", test::sentencepiece_model(options)), {"tokenizer.model asks for", part});
  }

  test::Scratch scratch_;
};

TEST_F(TokenizerErrors, WhatIsNotThere) {
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_ / "none"), "there is no tokenizer", "tokenizer.json");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.path()), "has no tokenizer; it needs");
  scratch_.file("half/vocab.json", "{}");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_ / "half"), "merges.txt is missing");
  scratch_.file("two/a.tiktoken", "");
  scratch_.file("two/b.tiktoken", "");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_ / "two"), "a.tiktoken, b.tiktoken; give the file of one");
  expect(error_of("text.txt", ""), {"text.txt must be a file .json"});
  std::filesystem::create_directory(scratch_ / "x.json");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_ / "x.json"), "has no tokenizer");
}

TEST_F(TokenizerErrors, WhatIsNoJson) {
  expect(error_of("a.json", "{\"model\": "), {"a.json is not JSON at byte", "cut short"});
  expect(error_of("a.json", "[]"), {"not a JSON object"});
  expect(error_of("a.json", "{\"model\": \"\xFF\"}"), {"is not JSON at byte"});
  expect(error_of("a.json", "{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}"), {"nests deeper"});
  expect(error_of("a.json", "{}"), {"must have the key 'model'"});
  expect(error_of("a.json", R"({"model": 3})"), {"'model' must be an object, got 3"});
}

TEST_F(TokenizerErrors, ModelsThatDoNotExistHere) {
  const Json json = test::byte_level_json();
  for (const std::string type : {"Unigram", "WordPiece", "WordLevel"})
    refuses(json, [&](Json& file) { file["model"]["type"] = type; }, {"'model' asks for the model " + type, "BPE"});
  refuses(json, [](Json& file) { file["model"]["dropout"] = 0.1; }, {"asks for dropout"});
  refuses(json, [](Json& file) { file["model"]["end_of_word_suffix"] = "</w>"; }, {"asks for end_of_word_suffix"});
  refuses(json, [](Json& file) { file["model"]["continuing_subword_prefix"] = "##"; },
          {"asks for continuing_subword_prefix"});
}

TEST_F(TokenizerErrors, PartsThatDoNotExistHere) {
  const Json json = test::byte_level_json();
  const auto part = [](const char* key, Json value) { return [=](Json& file) { file[key] = value; }; };
  refuses(json, part("normalizer", {{"type", "Lowercase"}}), {"'normalizer' asks for the normalizer Lowercase", "NFC"});
  refuses(json, part("normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}),
          {"asks for the pattern {\"Regex\":\" {2,}\"}"});
  refuses(json, part("pre_tokenizer", {{"type", "BertPreTokenizer"}}), {"the pre-tokenizer BertPreTokenizer"});
  refuses(json,
          part("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "\\p{L}+"}}}, {"behavior", "Isolated"}}),
          {"asks for the pattern {\"Regex\":\"\\\\p{L}+\"}", "Llama 3"});
  refuses(json, part("post_processor", {{"type", "RobertaProcessing"}}), {"the post-processor RobertaProcessing"});
  refuses(json, part("decoder", {{"type", "WordPiece"}}), {"the decoder WordPiece"});
  refuses(json, part("decoder", {{"type", "Metaspace"}}), {"another form of the tokens"});
  refuses(json, part("pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}}), {"asks for the replacement _"});
  refuses(json, [](Json& file) { file["added_tokens"][0]["single_word"] = true; }, {"asks for single_word"});
  refuses(json,
          part("pre_tokenizer",
               {{"type", "Sequence"}, {"pretokenizers", Json::array({{{"type", "ByteLevel"}}, {{"type", "Digits"}}})}}),
          {"asks for Digits behind ByteLevel"});
}

TEST_F(TokenizerErrors, BrokenVocabularies) {
  const Json json = test::byte_level_json();
  refuses(json, [](Json& file) { file["model"]["vocab"]["a"] = "b"; }, {"'vocab' must be a whole number, got \"b\""});
  refuses(json, [](Json& file) { file["model"]["vocab"]["x"] = -1; }, {"token 'x' has id -1"});
  refuses(json, [](Json& file) { file["model"]["vocab"]["xx"] = 1 << 30; }, {"token 'xx' has id 1073741824"});
  refuses(json, [](Json& file) { file["model"]["vocab"]["xx"] = 7; }, {"both have id 7"});
  refuses(json, [](Json& file) { file["added_tokens"][0]["content"] = "he"; }, {"token 'he' has the ids 256 and 260"});
  refuses(json, [](Json& file) { file["model"]["vocab"].erase("hell"); }, {"names the token 'hell'", "vocabulary"});
  refuses(json, [](Json& file) { file["model"]["merges"][0] = "a b c"; }, {"two tokens per merge, got \"a b c\""});
  refuses(json, [](Json& file) { file["model"]["merges"] = 1; }, {"must be a list of merges"});
  refuses(test::llama2_json(), [](Json& file) { file["model"]["unk_token"] = "<?>"; }, {"names the token '<?>'"});
  refuses(test::llama2_json(), [](Json& file) { file["post_processor"]["special_tokens"]["<s>"]["ids"][0] = 999; },
          {"'post_processor' adds token 999"});
  refuses(test::llama2_json(), [](Json& file) { file["post_processor"]["special_tokens"].erase("<s>"); },
          {"must have the key '<s>'"});
}

TEST_F(TokenizerErrors, BrokenMerges) {
  const Json vocabulary = test::byte_level_json()["model"]["vocab"];
  scratch_.file("vocab.json", vocabulary.dump());
  expect(error_of("merges.txt", "#version: 0.2\nh e\nhell\n"), {"merges.txt:3 must have two tokens", "'hell'"});
  expect(error_of("merges.txt", "h \xFF\n"), {"merges.txt is not UTF-8"});
  expect(error_of("merges.txt", "h zz\n"), {"names the token 'zz'"});
  scratch_.file("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizerFast"})");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.path()), "is of a RobertaTokenizer");
}

TEST_F(TokenizerErrors, BrokenModelsOfSentencePiece) {
  const std::string good = test::sentencepiece_model();
  for (size_t size = 1; size < 60; ++size) {
    const auto path = scratch_.file("m.model", good.substr(0, size));
    test::user_error([&] { Tokenizer::from_files(path); });
  }
  expect(error_of("m.model", ""), {"has no pieces"});
  // It claims 2^63 bytes.
  expect(error_of("m.model", "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F"), {"no model of SentencePiece"});
  expect(error_of("m.model", std::string(11, '\xFF')), {"no model of SentencePiece"});
  expect(error_of("m.model", test::piece_field("a\xFF", 0)), {"broken piece 'a\\xFF'"});
  expect(error_of("m.model", test::piece_field("a", 0, 9)), {"broken piece 'a'"});
  expect(error_of("m.model", good + test::piece_field("a", 0)), {"token 'a' has the ids"});
}

TEST_F(TokenizerErrors, ModelsOfSentencePieceThatDoNotExistHere) {
  model_refuses({.type = 1}, "the model UNIGRAM");
  model_refuses({.type = 77}, "the model ?");
  model_refuses({.removes_spaces = 1}, "remove_extra_whitespaces");
  model_refuses({.rules = "x"}, "the normalizer identity");
}

}  // namespace
}  // namespace axonn
