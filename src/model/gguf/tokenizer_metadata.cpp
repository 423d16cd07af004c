#include "model/gguf/tokenizer_metadata.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "model.gguf";
using Type = TokenizerTable::Type;

// The splits and rules that llama.cpp has names for.
struct Split {
  std::string_view words, name;
  bool ignores_merges;
};
constexpr Split kSplits[] = {
    {"gpt2", "gpt-2", false},      {"digit gpt2", "smollm", false}, {"qwen2", "qwen2", false},
    {"llama3", "llama-bpe", true}, {"llama3", "smaug-bpe", false},  {"o200k", "gpt-4o", false},
    {"tekken", "tekken", true},
};

std::string_view name_of_split(const TokenizerTable& table) {
  const auto* const found = std::ranges::find_if(kSplits, [&](const Split& split) {
    return split.words == table.words && split.ignores_merges == table.ignores_merges;
  });
  AXONN_CHECK(found != std::end(kSplits), kWhere, "llama.cpp has no name for a tokenizer that splits texts as '",
              table.words, table.ignores_merges ? "' and ignores merges" : "' and needs merges",
              "; write a directory of Hugging Face's");
  return found->name;
}

int32_t number_of(Type type) {
  switch (type) {
    case Type::normal:
      return 1;
    case Type::unknown:
      return 2;
    case Type::control:
      return 3;
    case Type::found:
      return 4;
    case Type::no_token:
      return 5;
    case Type::byte:
      return 6;
  }
  return 0;
}

void check_table(const TokenizerTable& table, int64_t vocabulary) {
  AXONN_CHECK(std::ssize(table.tokens) <= vocabulary, kWhere, "the tokenizer has ", table.tokens.size(),
              " tokens, more than the model's vocabulary of ", vocabulary,
              "; give the tokenizer's files that belong to the model");
  AXONN_CHECK(!table.changes_texts, kWhere,
              "llama.cpp has no tokenizer that changes texts as this one does; write a directory of Hugging Face's");
  AXONN_CHECK(table.byte_level || table.words.empty() || table.words == "metaspace", kWhere,
              "llama.cpp has no tokenizer of SentencePiece's form that splits texts as '", table.words,
              "'; write a directory of Hugging Face's");
  AXONN_CHECK(table.end, kWhere, "the tokenizer's files do not say which token ends a text, and llama.cpp would take ",
              "another; name its eos_token in tokenizer_config.json");
  for (const auto& [around, usual, side] :
       {std::tuple{&table.before, table.begin, "before"}, std::tuple{&table.after, table.end, "after"}})
    AXONN_CHECK(around->empty() || (around->size() == 1 && around->front() == usual), kWhere,
                "llama.cpp has no tokenizer that adds these special tokens ", side,
                " a text; write a directory of Hugging Face's");
}

}  // namespace

void add_tokenizer(const TokenizerTable& table, int64_t vocabulary, GgufHeader& header) {
  check_table(table, vocabulary);
  header.add_text("tokenizer.ggml.model", table.byte_level ? "gpt2" : "llama");
  header.add_text("tokenizer.ggml.pre", table.byte_level ? name_of_split(table) : "default");
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const TokenizerTable::Token& token : table.tokens) {
    texts.push_back(token.text);
    types.push_back(number_of(token.type));
    scores.push_back(token.score);
  }
  while (std::ssize(texts) < vocabulary) {
    texts.push_back("[unused " + std::to_string(texts.size()) + "]");
    types.push_back(number_of(Type::no_token));
    scores.push_back(0);
  }
  header.add_texts("tokenizer.ggml.tokens", texts);
  header.add_numbers("tokenizer.ggml.token_type", types);
  if (table.byte_level)
    header.add_texts("tokenizer.ggml.merges", table.merges);
  else
    header.add_reals("tokenizer.ggml.scores", scores);
  header.add_number("tokenizer.ggml.bos_token_id", table.begin.value_or(*table.end));
  header.add_number("tokenizer.ggml.eos_token_id", *table.end);
  if (!table.byte_level && table.unknown) header.add_number("tokenizer.ggml.unknown_token_id", *table.unknown);
  header.add_flag("tokenizer.ggml.add_bos_token", !table.before.empty());
  header.add_flag("tokenizer.ggml.add_eos_token", !table.after.empty());
  header.add_flag("tokenizer.ggml.add_space_prefix", table.adds_space);
  if (!table.chat_template.empty()) header.add_text("tokenizer.chat_template", table.chat_template);
}

}  // namespace axonn
