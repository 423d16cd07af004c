// Tables of small tokenizers, and of a real one: every form of files gives the same tokens.
#include "axonn/data/tokenizer/tokenizer_table.hpp"

#include <gtest/gtest.h>

#include "data/tokenizer/oracles.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using Type = TokenizerTable::Type;
using test::Json;

TEST(TokenizerTable, OfByteLevelFiles) {
  const test::Scratch scratch;
  Json json = test::byte_level_json();
  json["added_tokens"].push_back(test::added_token(262, "<found>", /*special=*/false));
  json["normalizer"] = {{"type", "NFC"}};
  scratch.file("tokenizer.json", json.dump());
  scratch.file("tokenizer_config.json", Json{{"chat_template", "{{ x }}"}}.dump());
  const TokenizerTable table = read_tokenizer_table(scratch.path());
  EXPECT_TRUE(table.byte_level);
  EXPECT_EQ(table.words, "gpt2");
  EXPECT_FALSE(table.ignores_merges || table.changes_texts || table.adds_space);
  ASSERT_EQ(table.tokens.size(), 263U);
  EXPECT_EQ(table.tokens[' '].text, "\u0120");
  EXPECT_EQ(table.tokens[259].text, "\u0120hell");
  EXPECT_EQ(table.tokens[259].type, Type::normal);
  EXPECT_EQ(table.tokens[260].type, Type::control);
  EXPECT_EQ(table.tokens[261].type, Type::no_token);
  EXPECT_EQ(table.tokens[262].text, "<found>");
  EXPECT_EQ(table.tokens[262].type, Type::found);
  EXPECT_EQ(table.merges, (std::vector<std::string>{"h e", "l l", "he ll", "\u0120 hell"}));
  EXPECT_EQ(table.begin, 260);
  EXPECT_EQ(table.end, 260);
  EXPECT_TRUE(table.before.empty() && table.after.empty());
  EXPECT_EQ(table.chat_template, "{{ x }}");
  json["normalizer"] = {{"type", "Prepend"}, {"prepend", " "}};
  scratch.file("tokenizer.json", json.dump());
  scratch.file("chat_template.jinja", "{{ y }}");
  EXPECT_TRUE(read_tokenizer_table(scratch.path()).changes_texts);
  EXPECT_EQ(read_tokenizer_table(scratch.path()).chat_template, "{{ y }}");
}

TEST(TokenizerTable, OfSentencePiecesForm) {
  const test::Scratch scratch;
  scratch.file("tokenizer.json", test::llama2_json().dump());
  const TokenizerTable table = read_tokenizer_table(scratch.path());
  EXPECT_FALSE(table.byte_level || table.changes_texts);
  EXPECT_TRUE(table.adds_space);
  EXPECT_EQ(table.words, "");
  EXPECT_EQ(table.unknown, 0);
  EXPECT_EQ(table.before, std::vector<int32_t>{1});
  const std::vector<Type> types = {Type::unknown, Type::control, Type::control, Type::byte};
  for (size_t id = 0; id < types.size(); ++id) EXPECT_EQ(table.tokens[id].type, types[id]) << id;
  EXPECT_EQ(table.tokens[3].text, "<0x00>");
  EXPECT_EQ(table.tokens[263].text, "\u2581ab");
  EXPECT_GT(table.tokens[262].score, table.tokens[263].score);  // ab is merged before U+2581 ab
  EXPECT_TRUE(table.merges.empty());
}

TEST(TokenizerTable, OfSentencePiecesModel) {
  const test::Scratch scratch;
  scratch.file("tokenizer.model", test::sentencepiece_model());
  const TokenizerTable table = read_tokenizer_table(scratch.path());
  const std::vector<std::string> texts = {"<unk>", "<s>", "</s>", "[x]", "\u2581ab", "ab", "\u2581", "a", "b"};
  ASSERT_EQ(table.tokens.size(), texts.size());
  for (size_t id = 0; id < texts.size(); ++id) EXPECT_EQ(table.tokens[id].text, texts[id]);
  EXPECT_EQ(table.tokens[0].type, Type::unknown);
  EXPECT_EQ(table.tokens[1].type, Type::control);
  EXPECT_EQ(table.tokens[3].type, Type::found);
  EXPECT_GT(table.tokens[5].score, table.tokens[4].score);
  EXPECT_EQ(table.end, 2);
}

TEST(TokenizerTable, IsTheSameOfBothFormsOfARealModel) {
  AXONN_NEEDS_ORACLES();
  const TokenizerTable model = read_tokenizer_table(test::kOracles / "sentencepiece");
  const TokenizerTable json = read_tokenizer_table(test::kOracles / "sentencepiece_json");
  ASSERT_EQ(model.tokens.size(), json.tokens.size());
  for (size_t id = 0; id < model.tokens.size(); ++id) {
    EXPECT_EQ(model.tokens[id].text, json.tokens[id].text);
    EXPECT_EQ(model.tokens[id].type, json.tokens[id].type) << id;
  }
  EXPECT_TRUE(model.adds_space && json.adds_space);
}

TEST(TokenizerTable, NamesTheSplitsOfRealModels) {
  AXONN_NEEDS_ORACLES();
  for (const auto& [folder, words] :
       {std::pair{"gpt2", "gpt2"}, std::pair{"gpt2_like", "gpt2"}, std::pair{"smollm_like", "digit gpt2"},
        std::pair{"qwen2_like", "qwen2"}, std::pair{"llama3_like", "llama3"}})
    EXPECT_EQ(read_tokenizer_table(test::kOracles / folder).words, words);
  EXPECT_TRUE(read_tokenizer_table(test::kOracles / "llama3_like").ignores_merges);
}

}  // namespace
}  // namespace axonn
