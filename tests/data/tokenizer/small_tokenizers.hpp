#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/tokenizer/files/byte_letters.hpp"

// Files of tokenizers with a few tokens each.
namespace axonn::test {

using Json = nlohmann::json;

inline Json added_token(int64_t id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline Json merge(const std::string& left, const std::string& right) { return Json::array({left, right}); }

// Byte-level BPE with GPT-2's words: 256 bytes, he, ll, hell, " hell" and <|endoftext|>.
inline Json byte_level_json() {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter_of_byte(static_cast<uint8_t>(byte))] = byte;
  const std::string space = letter_of_byte(' ');
  vocabulary["he"] = 256;
  vocabulary["ll"] = 257;
  vocabulary["hell"] = 258;
  vocabulary[space + "hell"] = 259;
  return {{"added_tokens", Json::array({added_token(260, "<|endoftext|>")})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocabulary},
            {"merges", Json::array({merge("h", "e"), merge("l", "l"), merge("he", "ll"), merge(space, "hell")})}}}};
}

inline Json replace_json(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// SentencePiece's BPE in Llama 2's form: <unk> <s> </s>, 256 bytes, U+2581 a b ab, U+2581 ab.
inline Json llama2_json() {
  const std::string space = "\u2581";
  Json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte)
    vocabulary[std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">"] = 3 + byte;
  int next = 259;
  for (const std::string& piece : {space, std::string("a"), std::string("b"), std::string("ab"), space + "ab"})
    vocabulary[piece] = next++;
  return {{"added_tokens", Json::array({added_token(0, "<unk>"), added_token(1, "<s>"), added_token(2, "</s>")})},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", space}}, replace_json(" ", space)})}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}})},
            {"special_tokens", {{"<s>", {{"ids", Json::array({1})}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders", Json::array({replace_json(space, " "),
                                      {{"type", "ByteFallback"}},
                                      {{"type", "Fuse"}},
                                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", Json::array({"a b", space + " ab"})}}}};
}

// tiktoken's ranks of the 256 bytes: base64 and a number per line.
inline std::string ranks_of_bytes() {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (size_t byte = 0; byte < 256; ++byte) {
    ranks += {kLetters[byte >> 2], kLetters[(byte & 3) << 4], '=', '=', ' '};
    ranks += std::to_string(byte) + "\n";
  }
  return ranks;
}

// Fields of protocol buffers.
inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7F));
  return bytes + static_cast<char>(value);
}
inline std::string field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}

inline std::string piece_field(const std::string& text, float score, uint64_t type = 1) {
  const char* const bytes = reinterpret_cast<const char*>(&score);
  return field(1, field(1, text) + varint(2 << 3 | 5) + std::string(bytes, 4) + field(3, type));
}

struct ModelOptions {
  uint64_t type = 2, adds_space = 1, removes_spaces = 0;
  std::string rules;  // the normalizer's
};

// The same vocabulary without the bytes; x marks a user's own symbol [x].
inline std::string sentencepiece_model(const ModelOptions& options = {}) {
  const std::string space = "\u2581";
  std::string model = piece_field("<unk>", 0, 2) + piece_field("<s>", 0, 3) + piece_field("</s>", 0, 3);
  model += piece_field("[x]", 0, 4) + piece_field(space + "ab", -1) + piece_field("ab", 0);
  for (const std::string& letter : {space, std::string("a"), std::string("b")}) model += piece_field(letter, -5);
  model += field(2, field(3, options.type) + field(41, uint64_t{1}) + field(42, uint64_t{2}));
  return model + field(3, field(1, std::string("identity")) + field(2, options.rules) + field(3, options.adds_space) +
                              field(4, options.removes_spaces));
}

}  // namespace axonn::test
