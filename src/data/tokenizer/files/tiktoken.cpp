#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/files/lines.hpp"
#include "data/tokenizer/files/readers.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";
constexpr size_t kMostBytes = 1024;  // per token: the longest in use have 128

// Facts that the files themselves do not hold.
struct Family {
  std::string_view name;
  Splitter splitter;
  bool nfc;
  std::vector<std::pair<std::string, int32_t>> special;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {"gpt2", gpt2_word, false, {{"<|endoftext|>", 50256}}},
      {"r50k_base", gpt2_word, false, {{"<|endoftext|>", 50256}}},
      {"cl100k_base",
       llama3_word,
       false,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k_base", o200k_word, false, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {"qwen", qwen2_word, true, {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
  };
  return kFamilies;
}

const Family& family_of(const FileText& file) {
  const std::string name = file.path.stem().string();
  for (const Family& family : families())
    if (family.name == name) return family;
  throw UserError(kWhere, detail::concatenate(file.name(),
                                              " does not say how text is split into words, so its name must: gpt2, "
                                              "r50k_base, cl100k_base, o200k_base or qwen with .tiktoken"));
}

int value_of(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  if (letter >= '0' && letter <= '9') return letter - '0' + 52;
  return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const int value = value_of(letter);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(static_cast<unsigned char>(bits >> count));
  }
  return bytes;
}

struct Rank {
  std::string bytes;
  int64_t id;
};

std::optional<Rank> rank_of(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto bytes = from_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  int64_t id = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!bytes || bytes->empty() || bytes->size() > kMostBytes || !whole) return std::nullopt;
  return Rank{std::move(*bytes), id};
}

std::vector<Rank> read_ranks(const FileText& file) {
  std::vector<Rank> ranks;
  for_each_line(file.text, [&](std::string_view line, size_t number) {
    auto rank = rank_of(line);
    AXONN_CHECK(rank, kWhere, file.name(), ":", number, " must be a token in base64, a space and its number, got '",
                printable(line.substr(0, 80)), "'");
    ranks.push_back(std::move(*rank));
  });
  return ranks;
}

void check_all_bytes(const FileText& file, const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto letter = static_cast<char>(static_cast<unsigned char>(byte));
    AXONN_CHECK(vocabulary.find(std::string_view(&letter, 1)), kWhere, file.name(), " has no token for the byte ", byte,
                "; download it again, it may be cut short");
  }
}

}  // namespace

bool is_tiktoken(const FileText& file) {
  const std::string_view text = file.text;
  return rank_of(text.substr(0, std::min(text.find('\n'), text.size()))).has_value();
}

TokenizerRules read_tiktoken(const FileText& file, const TokenizerConfig& config) {
  const Family& family = family_of(file);
  const std::vector<Rank> ranks = read_ranks(file);
  TokenizerRules rules;
  rules.splitters = {family.splitter};
  if (family.nfc) rules.normalizers.push_back({.kind = Rewrite::Kind::nfc});
  rules.bpe.of_bytes = rules.bpe.ignores_merges = true;
  Vocabulary vocabulary(file.name());
  for (const auto& [bytes, id] : ranks) vocabulary.add(bytes, id, ranks.size() + family.special.size());
  check_all_bytes(file, vocabulary);
  std::vector<uint32_t> order;
  for (const auto& [bytes, id] : ranks) {
    rules.bpe.pieces.emplace_back(bytes, static_cast<int32_t>(id));
    order.push_back(static_cast<uint32_t>(id));
    if (rules.bytes.size() <= static_cast<size_t>(id)) rules.bytes.resize(static_cast<size_t>(id) + 1);
    rules.bytes[static_cast<size_t>(id)] = bytes;
  }
  rules.bpe.merges = merges_of_ranks(rules.bpe.pieces, order);
  for (const auto& [name, id] : family.special) {
    vocabulary.add(name, id, ranks.size() + family.special.size());
    add_token({.content = name, .token = id, .special = true}, false, {}, rules);
  }
  set_text_ends(config, vocabulary, rules);
  return rules;
}

}  // namespace axonn
