#include "axonn/data/tokenizer/tokenizer_table.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "axonn/core/join.hpp"
#include "core/files.hpp"
#include "data/tokenizer/files/byte_letters.hpp"
#include "data/tokenizer/files/json_part.hpp"
#include "data/tokenizer/files/read_files.hpp"
#include "data/tokenizer/files/vocabulary.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Type = TokenizerTable::Type;

constexpr std::string_view kSpaceLetter = "\u2581";

std::string_view name_of(Splitter splitter) {
  static constexpr std::pair<Splitter, std::string_view> kNames[] = {
      {gpt2_word, "gpt2"},     {llama3_word, "llama3"},  {qwen2_word, "qwen2"},      {o200k_word, "o200k"},
      {tekken_word, "tekken"}, {digit_or_rest, "digit"}, {digits_or_rest, "digits"}, {metaspace_word, "metaspace"},
  };
  const auto* const found = std::ranges::find(kNames, splitter, &std::pair<Splitter, std::string_view>::first);
  return found == std::end(kNames) ? "another" : found->second;
}

std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) letters += letter_of_byte(static_cast<uint8_t>(byte));
  return letters;
}

void take_rewrites(const std::vector<Rewrite>& rewrites, TokenizerTable& table) {
  for (const Rewrite& rewrite : rewrites) {
    const bool prepends = rewrite.kind == Rewrite::Kind::prepend && rewrite.to == kSpaceLetter;
    const bool replaces = rewrite.kind == Rewrite::Kind::replace && rewrite.from == " " && rewrite.to == kSpaceLetter;
    if (!table.byte_level && prepends)
      table.adds_space = true;
    else if (rewrite.kind != Rewrite::Kind::nfc && (table.byte_level || !replaces))
      table.changes_texts = true;
  }
}

void set_types(const TokenizerRules& rules, TokenizerTable& table) {
  const auto set = [&](int32_t token, Type type) { table.tokens[static_cast<size_t>(token)].type = type; };
  for (const auto* list : {&rules.added, &rules.normalized_added})
    for (const AddedToken& token : *list) {
      set(token.token, Type::found);
      if (!table.byte_level) table.tokens[static_cast<size_t>(token.token)].text = with_spaces(token.content);
    }
  for (const int32_t token : rules.special) set(token, Type::control);
  for (const int32_t token : rules.bpe.byte_tokens)
    if (token >= 0) set(token, Type::byte);
  if (!table.byte_level && rules.bpe.unknown >= 0) set(rules.bpe.unknown, Type::unknown);
}

// SentencePiece's scores say the order of merges: of each token, that of its first one.
void set_scores(const BpeRules& rules, TokenizerTable& table) {
  for (const Merge& merge : rules.merges) {
    TokenizerTable::Token& token = table.tokens[static_cast<size_t>(merge.token)];
    const float score = -1 - static_cast<float>(merge.rank);
    token.score = token.score == 0 ? score : std::max(token.score, score);
  }
}

void set_merges(const BpeRules& rules, TokenizerTable& table) {
  std::vector<Merge> merges = rules.merges;
  std::ranges::stable_sort(merges, {}, &Merge::rank);
  table.merges.reserve(merges.size());
  const auto text = [&](int32_t token) -> const std::string& { return table.tokens[static_cast<size_t>(token)].text; };
  for (const Merge& merge : merges) table.merges.push_back(text(merge.left) + " " + text(merge.right));
}

std::string chat_template_in(const fs::path& directory) {
  if (const fs::path file = directory / "chat_template.jinja"; fs::exists(file)) return disk::read_text(file);
  const fs::path config = directory / "tokenizer_config.json";
  if (!fs::exists(config)) return "";
  const FileText file = read_file_text(config);
  const nlohmann::json json = parse_json(file);
  const auto found = json.find("chat_template");
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";  // or a list of several
}

}  // namespace

TokenizerTable read_tokenizer_table(const fs::path& directory) {
  const TokenizerRules rules = read_files(directory).rules;
  TokenizerTable table;
  table.byte_level = rules.bpe.of_bytes;
  table.words = join(rules.splitters, " ", name_of);
  table.ignores_merges = rules.bpe.ignores_merges;
  take_rewrites(rules.normalizers, table);
  take_rewrites(rules.word_rewrites, table);
  for (size_t id = 0; id < rules.bytes.size(); ++id) {
    TokenizerTable::Token& token = table.tokens.emplace_back();
    if (id < rules.texts.size()) token.text = rules.texts[id];
    if (token.text.empty()) token.text = letters_of(rules.bytes[id]);  // tiktoken's files have bytes only
    if (token.text.empty()) token = {.text = "[unused " + std::to_string(id) + "]", .type = Type::no_token};
  }
  set_types(rules, table);
  if (table.byte_level)
    set_merges(rules.bpe, table);
  else
    set_scores(rules.bpe, table);
  table.begin = rules.begin;
  table.end = rules.end;
  if (rules.bpe.unknown >= 0) table.unknown = rules.bpe.unknown;
  table.before = rules.before;
  table.after = rules.after;
  table.chat_template = chat_template_in(directory);
  return table;
}

}  // namespace axonn
