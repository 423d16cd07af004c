#include "data/tokenizer/files/tokenizer_parts_json.hpp"

#include <algorithm>
#include <cstdint>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kSpaceLetter = "\u2581";

// The text of {"String": "..."}. Regular expressions are refused.
std::string plain_pattern(const JsonPart& part) {
  const JsonPart pattern = part.at("pattern");
  if (!pattern.has("String")) refuse(part, "the pattern " + pattern.shown(), "texts as patterns here");
  return pattern.word("String");
}

void append_normalizer(const JsonPart& part, TokenizerRules& rules) {
  const std::string type = part.word("type");
  if (type == "Sequence") {
    for (const JsonPart& one : part.list("normalizers")) append_normalizer(one, rules);
  } else if (type == "NFC") {
    rules.normalizers.push_back({.kind = Rewrite::Kind::nfc});
  } else if (type == "Prepend") {
    rules.normalizers.push_back({.kind = Rewrite::Kind::prepend, .to = part.word("prepend")});
  } else if (type == "Replace") {
    const std::string from = plain_pattern(part);
    if (from.empty()) refuse(part, "an empty pattern", "patterns of one letter and more");
    rules.normalizers.push_back({.kind = Rewrite::Kind::replace, .from = from, .to = part.word("content")});
  } else {
    refuse(part, "the normalizer " + type, "NFC, Prepend and Replace");
  }
}

enum class PrependScheme { always, first, never };

PrependScheme prepend_scheme(const JsonPart& metaspace) {
  if (!metaspace.flag_or("add_prefix_space", true)) return PrependScheme::never;
  const std::string name = metaspace.word_or("prepend_scheme", "always");
  if (name == "always") return PrependScheme::always;
  if (name == "first") return PrependScheme::first;
  if (name != "never") refuse(metaspace, "the prepend_scheme " + name, "always, first and never");
  return PrependScheme::never;
}

void check_replacement(const JsonPart& metaspace) {
  if (metaspace.word_or("replacement", kSpaceLetter) != kSpaceLetter)
    refuse(metaspace, "the replacement " + metaspace.word("replacement"), "U+2581 in the place of a space");
}

// A change of the text that must come before any split.
void append_rewrite(const JsonPart& part, Rewrite rewrite, TokenizerRules& rules) {
  if (!rules.splitters.empty()) refuse(part, "added spaces behind another split", "them before all splits");
  rules.word_rewrites.push_back(std::move(rewrite));
}

void append_metaspace(const JsonPart& part, TokenizerRules& rules) {
  check_replacement(part);
  append_rewrite(part, {.kind = Rewrite::Kind::replace, .from = " ", .to = kSpaceLetter}, rules);
  const PrependScheme scheme = prepend_scheme(part);
  if (scheme != PrependScheme::never)
    append_rewrite(part,
                   {.kind = Rewrite::Kind::prepend,
                    .to = kSpaceLetter,
                    .unless_there = true,
                    .only_first = scheme == PrependScheme::first},
                   rules);
  if (part.flag_or("split", true)) rules.splitters.push_back(metaspace_word);
}

void append_byte_level(const JsonPart& part, TokenizerRules& rules) {
  if (part.flag_or("add_prefix_space", true))
    append_rewrite(part, {.kind = Rewrite::Kind::prepend, .to = " ", .unless_there = true}, rules);
  if (part.flag_or("use_regex", true)) rules.splitters.push_back(gpt2_word);
  rules.bpe.of_bytes = true;
}

// All patterns known here match every character, so what lies between matches is empty.
void append_split(const JsonPart& part, TokenizerRules& rules) {
  const JsonPart pattern = part.at("pattern");
  const Splitter splitter = pattern.has("Regex") ? splitter_of_pattern(pattern.word("Regex")) : nullptr;
  if (splitter == nullptr)
    refuse(part, "the pattern " + pattern.shown(), "those of GPT-2, Llama 3 (cl100k), Qwen 2, o200k and tekken");
  const std::string behavior = part.word("behavior");
  const bool inverted = part.flag_or("invert", false);
  if (behavior != "Isolated" && !(behavior == "Removed" && inverted))
    refuse(part, "the behavior " + behavior + " of a split", "Isolated, or Removed with invert");
  rules.splitters.push_back(splitter);
}

void append_pre_tokenizer(const JsonPart& part, TokenizerRules& rules) {
  const std::string type = part.word("type");
  if (rules.bpe.of_bytes) refuse(part, type + " behind ByteLevel", "ByteLevel as the last");
  if (type == "Sequence") {
    for (const JsonPart& one : part.list("pretokenizers")) append_pre_tokenizer(one, rules);
  } else if (type == "ByteLevel") {
    append_byte_level(part, rules);
  } else if (type == "Metaspace") {
    append_metaspace(part, rules);
  } else if (type == "Split") {
    append_split(part, rules);
  } else if (type == "Digits") {
    rules.splitters.push_back(part.flag_or("individual_digits", false) ? digit_or_rest : digits_or_rest);
  } else {
    refuse(part, "the pre-tokenizer " + type, "ByteLevel, Digits, Metaspace and Split");
  }
}

// {"SpecialToken": {"id": "<s>"}} or {"Sequence": {"id": "A"}}, the text.
void read_template(const JsonPart& part, TokenizerRules& rules) {
  std::vector<int32_t> before, after;
  bool behind_text = false;
  for (const JsonPart& one : part.list("single")) {
    if (one.has("Sequence")) {
      if (behind_text || one.at("Sequence").word("id") != "A") refuse(one, "a second text", "one text in a template");
      behind_text = true;
      continue;
    }
    const JsonPart token = part.at("special_tokens").at(one.at("SpecialToken").word("id"));
    for (const JsonPart& id : token.list("ids"))
      (behind_text ? after : before).push_back(static_cast<int32_t>(std::clamp<int64_t>(id.whole(), -1, INT32_MAX)));
  }
  rules.before.insert(rules.before.begin(), before.begin(), before.end());
  rules.after.insert(rules.after.end(), after.begin(), after.end());
}

void append_post_processor(const JsonPart& part, TokenizerRules& rules) {
  const std::string type = part.word("type");
  if (type == "Sequence") {
    for (const JsonPart& one : part.list("processors")) append_post_processor(one, rules);
  } else if (type == "TemplateProcessing") {
    read_template(part, rules);
  } else if (type != "ByteLevel") {  // it changes only places in the text
    refuse(part, "the post-processor " + type, "ByteLevel and TemplateProcessing");
  }
}

struct Decoder {
  TokenForm form;
  TokenizerRules::Strip strip = TokenizerRules::Strip::nothing;
  bool fused = false;
};

void append_strip(const JsonPart& part, Decoder& decoder) {
  const bool one_space =
      decoder.fused && part.word("content") == " " && part.at("start").whole() == 1 && part.at("stop").whole() == 0;
  if (!one_space) refuse(part, "another strip", "that of one space at the beginning, behind Fuse");
  decoder.strip = TokenizerRules::Strip::one_space;
}

void append_decoder(const JsonPart& part, Decoder& decoder) {
  const std::string type = part.word("type");
  if (type == "Sequence") {
    for (const JsonPart& one : part.list("decoders")) append_decoder(one, decoder);
  } else if (type == "ByteLevel") {
    decoder.form.letters = true;
  } else if (type == "Metaspace") {
    check_replacement(part);
    decoder.form.spaces = true;
    if (prepend_scheme(part) != PrependScheme::never) decoder.strip = TokenizerRules::Strip::first_token;
  } else if (type == "Replace") {
    if (plain_pattern(part) != kSpaceLetter || part.word("content") != " ")
      refuse(part, "another replacement", "U+2581 by a space");
    decoder.form.spaces = true;
  } else if (type == "ByteFallback") {
    decoder.form.bytes = true;
  } else if (type == "Fuse") {
    decoder.fused = true;
  } else if (type == "Strip") {
    append_strip(part, decoder);
  } else {
    refuse(part, "the decoder " + type, "ByteFallback, ByteLevel, Fuse, Metaspace, Replace and Strip");
  }
}

}  // namespace

void read_normalizer(const JsonPart& file, TokenizerRules& rules) {
  if (file.has("normalizer")) append_normalizer(file.at("normalizer"), rules);
}

void read_pre_tokenizer(const JsonPart& file, TokenizerRules& rules) {
  if (file.has("pre_tokenizer")) append_pre_tokenizer(file.at("pre_tokenizer"), rules);
}

void read_post_processor(const JsonPart& file, TokenizerRules& rules) {
  if (file.has("post_processor")) append_post_processor(file.at("post_processor"), rules);
}

TokenForm read_decoder(const JsonPart& file, TokenizerRules& rules) {
  Decoder decoder;
  decoder.form.letters = rules.bpe.of_bytes;
  if (!file.has("decoder")) return decoder.form;
  decoder.form.letters = false;
  const JsonPart part = file.at("decoder");
  append_decoder(part, decoder);
  const TokenForm& form = decoder.form;
  if (form.letters != rules.bpe.of_bytes || (form.letters && (form.spaces || form.bytes)))
    refuse(part, "another form of the tokens than the pre-tokenizer", "ByteLevel with ByteLevel");
  rules.strip = decoder.strip;
  return form;
}

}  // namespace axonn
