#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/files/lines.hpp"
#include "data/tokenizer/files/readers.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";

void set_splitter(const TokenizerConfig& config, TokenizerRules& rules) {
  std::string_view name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const bool qwen2 = name == "Qwen2Tokenizer";
  AXONN_CHECK(qwen2 || name.empty() || name == "GPT2Tokenizer", kWhere, config.file, " is of a ", printable(name),
              ", and vocab.json with merges.txt is read only of GPT2Tokenizer and Qwen2Tokenizer; add the model's "
              "tokenizer.json, which says more");
  rules.bpe.of_bytes = true;
  rules.splitters = {qwen2 ? qwen2_word : gpt2_word};
  if (qwen2) rules.normalizers.push_back({.kind = Rewrite::Kind::nfc});
}

void add_merges(const FileText& file, const Vocabulary& vocabulary, std::vector<Merge>& merges) {
  AXONN_CHECK(!first_invalid_utf8(file.text), kWhere, file.name(), " is not UTF-8; download it again");
  for_each_line(file.text, [&](std::string_view line, size_t number) {
    if (line.starts_with("#version")) return;
    const size_t space = line.find(' ');
    AXONN_CHECK(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos, kWhere,
                file.name(), ":", number, " must have two tokens with a space between them, got '",
                printable(line.substr(0, 80)), "'");
    merges.push_back(
        vocabulary.merge(line.substr(0, space), line.substr(space + 1), static_cast<uint32_t>(merges.size())));
  });
}

// Neither file says which tokens are special: the config does, or they are known by their names.
void add_special_tokens(const TokenizerConfig& config, const TokenForm& form, Vocabulary& vocabulary,
                        TokenizerRules& rules) {
  const size_t most = vocabulary.all().size() + config.added.size();
  for (const auto& [token, normalized] : config.added) {
    vocabulary.add(token.content, token.token, most);
    add_token(token, normalized, form, rules);
  }
  const auto end = vocabulary.find("<|endoftext|>");
  if (config.added.empty() && end)
    add_token({.content = "<|endoftext|>", .token = *end, .special = true}, false, form, rules);
}

}  // namespace

TokenizerRules read_vocabulary_and_merges(const FileText& vocabulary_file, const FileText& merges_file,
                                          const TokenizerConfig& config) {
  const nlohmann::json json = parse_json(vocabulary_file);
  TokenizerRules rules;
  set_splitter(config, rules);
  Vocabulary vocabulary(vocabulary_file.name());
  for (const auto& [token, id] : json.get_ref<const nlohmann::json::object_t&>())
    vocabulary.add(token, JsonPart(vocabulary_file.name(), id).whole(), json.size());
  const TokenForm form = {.letters = true};
  set_pieces(vocabulary, form, rules);
  add_merges(merges_file, vocabulary, rules.bpe.merges);
  add_special_tokens(config, form, vocabulary, rules);
  set_text_ends(config, vocabulary, rules);
  return rules;
}

}  // namespace axonn
