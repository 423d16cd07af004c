#include "data/tokenizer/training/bpe_training.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "data/tokenizer/bpe_tables.hpp"
#include "data/tokenizer/files/byte_letters.hpp"
#include "data/tokenizer/files/readers.hpp"
#include "data/tokenizer/training/merge_search.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBytes = 256;

Json byte_level(bool splits, bool adds_space = false) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"trim_offsets", true}, {"use_regex", splits}};
}

Json in_sequence(Json first, bool splits) {
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({std::move(first), byte_level(splits)})}};
}

Json split_by(Splitter splitter) {
  const Json pattern = {{"Regex", pattern_of_splitter(splitter)}};
  return in_sequence({{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}}, false);
}

Json pre_tokenizer_of(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return byte_level(true);
    case WordPattern::llama3:
      return split_by(llama3_word);
    case WordPattern::qwen2:
      return split_by(qwen2_word);
    case WordPattern::smollm:
      return in_sequence({{"type", "Digits"}, {"individual_digits", true}}, true);
    case WordPattern::o200k:
      return split_by(o200k_word);
  }
  return nullptr;
}

// As Hugging Face's tokenizers write a file.
Json file_of(WordPattern pattern) {
  const Json end = {{"id", 0},         {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
                    {"rstrip", false}, {"normalized", false},        {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({end})},
          {"normalizer", pattern == WordPattern::qwen2 ? Json({{"type", "NFC"}}) : Json()},
          {"pre_tokenizer", pre_tokenizer_of(pattern)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true, true)},  // it adds nothing
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", Json::object()},
            {"merges", Json::array()}}}};
}

// The letters of all bytes, in the order of their code points, which is that of their UTF-8.
std::vector<std::pair<std::string, uint8_t>> letters_in_order() {
  std::vector<std::pair<std::string, uint8_t>> letters;
  for (size_t byte = 0; byte < kBytes; ++byte)
    letters.emplace_back(letter_of_byte(static_cast<uint8_t>(byte)), static_cast<uint8_t>(byte));
  std::ranges::sort(letters);
  return letters;
}

Json vocabulary_of(const std::vector<std::string>& tokens) {
  Json vocabulary = Json::object();
  auto& object = vocabulary.get_ref<Json::object_t&>();  // all names differ, so none is searched for
  object.reserve(tokens.size());
  for (size_t token = 0; token < tokens.size(); ++token) object.emplace_back(tokens[token], token);
  return vocabulary;
}

// Of a pair that was merged twice, the last time counts.
Json merges_of(const std::vector<FoundMerge>& merges, const std::vector<std::string>& tokens) {
  std::unordered_map<uint64_t, size_t> last;
  const auto key = [](const FoundMerge& merge) {
    return uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
  };
  for (size_t i = 0; i < merges.size(); ++i) last[key(merges[i])] = i;
  Json list = Json::array();
  for (size_t i = 0; i < merges.size(); ++i)
    if (last[key(merges[i])] == i)
      list.push_back({tokens[static_cast<size_t>(merges[i].left)], tokens[static_cast<size_t>(merges[i].right)]});
  return list;
}

}  // namespace

size_t WordCounts::Hash::operator()(std::string_view word) const { return word_hash(word); }

void WordCounts::add(std::string_view word, int64_t count) {
  const auto found = counts_.find(word);
  if (found != counts_.end())
    found->second += count;
  else
    counts_.emplace(word, count);
}

void WordCounts::add(const WordCounts& other) {
  for (const auto& [word, count] : other) add(word, count);
}

BpeTraining::BpeTraining(WordPattern pattern) : BpeTraining(file_of(pattern).dump()) {}

BpeTraining::BpeTraining(const std::string& like) : like_(like) {
  Json file = Json::parse(like);
  for (const Json& token : file.at("added_tokens")) added_.push_back(token.at("content").get<std::string>());
  std::vector<std::string> tokens = added_;
  for (const auto& [letter, byte] : letters_in_order()) tokens.push_back(letter);
  file["model"]["vocab"] = vocabulary_of(tokens);
  file["model"]["merges"] = Json::array();
  const TokenizerRules rules = read_tokenizer_json({"tokenizer.json", file.dump()}, {});
  normalizers_ = rules.normalizers;
  word_rewrites_ = rules.word_rewrites;
  splitters_ = rules.splitters;
}

int64_t BpeTraining::fewest_tokens() const { return static_cast<int64_t>(added_.size() + kBytes); }

void BpeTraining::count(std::string_view text, WordCounts& counts) const {
  const auto normalized = rewritten(text, normalizers_, true);
  if (normalized) text = *normalized;
  const auto changed = rewritten(text, word_rewrites_, true);
  if (changed) text = *changed;
  for_each_word(std::span(splitters_), text, [&](std::string_view word) { counts.add(word); });
}

std::string BpeTraining::tokenizer_json(const WordCounts& counts, int64_t vocabulary) const {
  AXONN_CHECK(vocabulary >= fewest_tokens(), "data.tokenizer", "a trained vocabulary has at least ", fewest_tokens(),
              " tokens, the bytes and the end of a document, got ", vocabulary);
  std::vector<std::string> tokens = added_;
  std::array<int32_t, kBytes> id_of_byte{};
  for (const auto& [letter, byte] : letters_in_order()) {
    id_of_byte[byte] = static_cast<int32_t>(tokens.size());
    tokens.push_back(letter);
  }
  std::vector<CountedWord> words;
  words.reserve(counts.size());
  for (const auto& [word, count] : counts) {
    CountedWord& one = words.emplace_back(CountedWord{.ids = {}, .count = count});
    for (const char byte : word) one.ids.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
  }
  const std::vector<FoundMerge> merges = search_merges(std::move(words), tokens, static_cast<size_t>(vocabulary));
  Json file = Json::parse(like_);
  file["model"]["vocab"] = vocabulary_of(tokens);
  file["model"]["merges"] = merges_of(merges, tokens);
  return file.dump(2);
}

}  // namespace axonn
