// Changed files of tokenizers are read, or refused by a UserError; what was read takes any text.
// The sanitizers see the rest.
#include <gtest/gtest.h>

#include "axonn/data/tokenizer/tokenizer.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using fuzz::Random;

std::string some_text(Random& random) {
  static const std::vector<std::string> kParts = {
      "a",       "b",   "ab ",           "hell", " ",   "\n",   "\u2581",     "\u00E9",
      "e\u0301", "<s>", "<|endoftext|>", "12",   "'ll", "\xFF", "\U0001F600", "[x]"};
  std::string text;
  for (size_t parts = random.below(80); parts > 0; --parts) text += kParts[random.below(kParts.size())];
  return random.one_in(4) ? fuzz::mutated(text, random) : text;
}

void use(const std::filesystem::path& path, Random& random) {
  const Tokenizer tokenizer = Tokenizer::from_files(path);
  const std::string text = some_text(random);
  const auto tokens = tokenizer.encode(text, {.find_special = random.one_in(2), .add_special = random.one_in(2)});
  for (const int32_t token : tokens) ASSERT_LT(token, tokenizer.vocabulary_size());
  tokenizer.decode(tokens, {.skip_special = random.one_in(2)});
}

// Changes files of `good` and uses them. Both must happen: that one is read, and that one is
// refused.
void fuzz_files(const std::vector<std::pair<std::string, std::string>>& good, uint64_t count) {
  const test::Scratch scratch;
  size_t read = 0, refused = 0;
  fuzz::rounds(count, [&](Random& random) {
    const auto& [name, content] = good[random.below(good.size())];
    const auto path = scratch.file(name, random.one_in(8) ? content : fuzz::changed(content, random));
    ++(fuzz::read([&] { use(path, random); }) ? read : refused);
  });
  EXPECT_GT(read, 10U);
  EXPECT_GT(refused, 10U);
}

TEST(TokenizerFuzz, JsonIsReadOrRefused) {
  fuzz_files({{"a.json", test::byte_level_json().dump()}, {"b.json", test::llama2_json().dump()}}, 600);
}

TEST(TokenizerFuzz, ModelsOfSentencePieceAreReadOrRefused) {
  fuzz_files({{"a.model", test::sentencepiece_model()}}, 4000);
}

TEST(TokenizerFuzz, RanksAreReadOrRefused) {
  fuzz_files({{"gpt2.tiktoken", test::ranks_of_bytes() + "YWI= 256\nYWJjZA== 257\n"}}, 600);
}

TEST(TokenizerFuzz, VocabulariesWithMergesAreReadOrRefused) {
  const test::Scratch scratch;
  const std::vector<std::pair<std::string, std::string>> good = {
      {"vocab.json", test::byte_level_json()["model"]["vocab"].dump()},
      {"merges.txt", "#version: 0.2\nh e\nl l\nhe ll\n"},
      {"tokenizer_config.json",
       R"({"tokenizer_class": "Qwen2Tokenizer", "bos_token": null, "eos_token": {"content": "<|endoftext|>"},
           "added_tokens_decoder": {"260": {"content": "<|endoftext|>", "special": true, "lstrip": true},
                                    "261": {"content": "[x]", "normalized": true, "rstrip": true}}})"}};
  size_t read = 0, refused = 0;
  fuzz::rounds(1200, [&](Random& random) {
    const size_t bad = random.below(good.size() + 1);
    for (size_t file = 0; file < good.size(); ++file)
      scratch.file(good[file].first, file == bad ? fuzz::changed(good[file].second, random) : good[file].second);
    ++(fuzz::read([&] { use(scratch.path(), random); }) ? read : refused);
  });
  EXPECT_GT(read, 100U);
  EXPECT_GT(refused, 100U);
}

// Any text that is UTF-8 comes back.
TEST(TokenizerFuzz, TextsComeBack) {
  const test::Scratch scratch;
  const Tokenizer tokenizer = Tokenizer::from_files(scratch.file("a.json", test::byte_level_json().dump()));
  fuzz::rounds(2000, [&](Random& random) {
    const std::string text = some_text(random);
    if (first_invalid_utf8(text)) return;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.find_special = random.one_in(2)})), text);
  });
}

}  // namespace
}  // namespace axonn
