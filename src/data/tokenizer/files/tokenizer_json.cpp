#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/files/byte_letters.hpp"
#include "data/tokenizer/files/readers.hpp"
#include "data/tokenizer/files/tokenizer_parts_json.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";

void check_model(const JsonPart& model) {
  if (const std::string type = model.word_or("type", "BPE"); type != "BPE")
    refuse(model, "the model " + type, "BPE; choose a model with such a tokenizer");
  if (model.has("dropout") && model.at("dropout").number() != 0)
    refuse(model, "dropout, which draws tokens by chance", "the same tokens for the same text");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.word_or(key, "").empty()) refuse(model, key, "tokens without marks of their place in a word");
}

// Texts of `vocabulary` are those of the JSON, which has to stay.
void add_vocabulary(const JsonPart& model, size_t others, Vocabulary& vocabulary) {
  const JsonPart object = model.at("vocab");
  AXONN_CHECK(object.value().is_object(), kWhere, object.name(), " must be an object with an id per token");
  const size_t most = object.value().size() + others;
  for (const auto& [token, id] : object.value().get_ref<const nlohmann::json::object_t&>())
    vocabulary.add(token, JsonPart(object.name(), id).whole(), most);
}

// "a b" or ["a", "b"]
std::pair<std::string_view, std::string_view> parts_of_merge(const JsonPart& list, const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  const std::string_view text = merge.is_string() ? std::string_view(merge.get_ref<const std::string&>()) : "";
  const size_t space = text.find(' ');
  AXONN_CHECK(space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos, kWhere,
              list.name(), " must have two tokens per merge, got ", JsonPart("", merge).shown());
  return {text.substr(0, space), text.substr(space + 1)};
}

void add_merges(const JsonPart& model, const Vocabulary& vocabulary, BpeRules& rules) {
  const JsonPart list = model.at("merges");
  AXONN_CHECK(list.value().is_array(), kWhere, list.name(), " must be a list of merges");
  rules.merges.reserve(list.value().size());
  for (const auto& merge : list.value()) {
    const auto [left, right] = parts_of_merge(list, merge);
    rules.merges.push_back(vocabulary.merge(left, right, static_cast<uint32_t>(rules.merges.size())));
  }
}

// With all 256 letters, a byte-level token never needs the names of bytes.
void set_byte_tokens(const JsonPart& model, const Vocabulary& vocabulary, BpeRules& rules) {
  for (size_t byte = 0; byte < rules.byte_tokens.size(); ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    if (rules.of_bytes && !vocabulary.find(letter_of_byte(value)))
      refuse(model, "byte_fallback with ByteLevel", "one of both");
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
    if (!rules.of_bytes) rules.byte_tokens[byte] = vocabulary.find(name.data()).value_or(-1);
  }
}

void read_model(const JsonPart& model, const Vocabulary& vocabulary, BpeRules& rules) {
  add_merges(model, vocabulary, rules);
  rules.ignores_merges = model.flag_or("ignore_merges", false);
  rules.fuses_unknown = model.flag_or("fuse_unk", false);
  const std::string unknown = model.word_or("unk_token", "");
  if (!unknown.empty())  // byte-level files name one that they never need
    rules.unknown = rules.of_bytes ? vocabulary.find(unknown).value_or(-1) : vocabulary.at(unknown);
  if (model.flag_or("byte_fallback", false)) set_byte_tokens(model, vocabulary, rules);
}

void check_around(const JsonPart& file, const Vocabulary& vocabulary, const std::vector<int32_t>& tokens,
                  size_t vocabulary_size) {
  for (const int32_t token : tokens)
    AXONN_CHECK(token >= 0 && static_cast<size_t>(token) < vocabulary_size, kWhere, file.name(),
                ": 'post_processor' adds token ", token, ", which is not among the ", vocabulary.all().size(),
                " tokens; download the file again");
}

}  // namespace

TokenizerRules read_tokenizer_json(const FileText& file, const TokenizerConfig& config) {
  const nlohmann::json json = parse_json(file);
  const JsonPart root(file.name(), json);
  const JsonPart model = root.at("model");
  check_model(model);
  TokenizerRules rules;
  read_normalizer(root, rules);
  read_pre_tokenizer(root, rules);
  read_post_processor(root, rules);
  const TokenForm form = read_decoder(root, rules);

  const std::vector<JsonPart> added = root.has("added_tokens") ? root.list("added_tokens") : std::vector<JsonPart>();
  std::vector<std::string> contents;  // stay where they are, for the vocabulary
  contents.reserve(added.size());
  Vocabulary vocabulary(file.name());
  add_vocabulary(model, added.size(), vocabulary);
  set_pieces(vocabulary, form, rules);
  read_model(model, vocabulary, rules.bpe);
  const size_t most = vocabulary.all().size() + added.size();
  for (const JsonPart& part : added) {
    contents.push_back(part.word("content"));
    if (contents.back().empty()) continue;
    const int64_t id = part.at("id").whole();
    vocabulary.add(contents.back(), id, most);
    const AddedToken token = read_added_token(part, id);
    add_token(token, part.flag_or("normalized", !token.special), form, rules);
  }
  check_around(root, vocabulary, rules.before, rules.bytes.size());
  check_around(root, vocabulary, rules.after, rules.bytes.size());
  set_text_ends(config, vocabulary, rules);
  return rules;
}

}  // namespace axonn
