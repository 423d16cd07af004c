#include "data/tokenizer/files/text_ends.hpp"

#include <charconv>
#include <initializer_list>
#include <string_view>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {
namespace {

// A text, or an object that has it as its content.
std::optional<std::string> token_name(const JsonPart& config, const char* key) {
  if (!config.value().contains(key)) return std::nullopt;
  if (!config.has(key)) return "";
  const JsonPart token = config.at(key);
  return token.value().is_object() ? token.word("content") : config.word(key);
}

std::optional<bool> flag(const JsonPart& config, const char* key) {
  return config.has(key) ? std::optional(config.flag_or(key, false)) : std::nullopt;
}

int64_t id_of(const JsonPart& part, const std::string& text) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  AXONN_CHECK(error == std::errc() && end == text.data() + text.size(), "data.tokenizer", part.name(),
              " must have ids as keys, got '", printable(text), "'");
  return id;
}

std::vector<ListedToken> listed_tokens(const JsonPart& config) {
  std::vector<ListedToken> tokens;
  if (!config.has("added_tokens_decoder")) return tokens;
  const JsonPart object = config.at("added_tokens_decoder");
  AXONN_CHECK(object.value().is_object(), "data.tokenizer", object.name(), " must be an object with a token per id");
  for (const auto& [text, value] : object.value().get_ref<const nlohmann::json::object_t&>()) {
    const JsonPart part(object.name(), value);
    const AddedToken token = read_added_token(part, id_of(object, text));
    if (!token.content.empty()) tokens.push_back({token, part.flag_or("normalized", !token.special)});
  }
  return tokens;
}

std::optional<int32_t> token_of(const TokenizerConfig& config, const std::string& name, const Vocabulary& vocabulary) {
  if (name.empty()) return std::nullopt;
  const auto token = vocabulary.find(name);
  AXONN_CHECK(token, "data.tokenizer", config.file, " names the token '", printable(name), "', which ",
              vocabulary.file(), " does not have; take both files from the same model");
  return token;
}

std::optional<int32_t> first_of(std::initializer_list<std::string_view> names, const Vocabulary& vocabulary) {
  for (const std::string_view name : names)
    if (const auto token = vocabulary.find(name)) return token;
  return std::nullopt;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const FileText& file) {
  const nlohmann::json json = parse_json(file);
  const JsonPart config(file.name(), json);
  return {.file = file.name(),
          .tokenizer_class = config.word_or("tokenizer_class", ""),
          .begin = token_name(config, "bos_token"),
          .end = token_name(config, "eos_token"),
          .adds_begin = flag(config, "add_bos_token"),
          .adds_end = flag(config, "add_eos_token"),
          .added = listed_tokens(config)};
}

void set_text_ends(const TokenizerConfig& config, const Vocabulary& vocabulary, TokenizerRules& rules) {
  if (config.begin)
    rules.begin = token_of(config, *config.begin, vocabulary);
  else if (!rules.before.empty())
    rules.begin = rules.before.front();
  else
    rules.begin = first_of({"<|begin_of_text|>", "<s>", "<bos>", "<|endoftext|>"}, vocabulary);
  rules.end = config.end ? token_of(config, *config.end, vocabulary)
                         : first_of({"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>"}, vocabulary);
}

}  // namespace axonn
