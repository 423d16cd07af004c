#pragma once

#include <cstddef>
#include <span>
#include <string_view>

// How a text is split into the words that BPE works on. The patterns of tokenizer.json are regular
// expressions; each has a function here that finds the same words.
namespace axonn {

// Bytes of the first word of `text`, which is not empty and valid UTF-8: at least 1. The text
// behind the word counts as in the pattern's look-ahead.
using Splitter = size_t (*)(std::string_view text);

size_t gpt2_word(std::string_view text);
size_t llama3_word(std::string_view text);  // also of cl100k
size_t qwen2_word(std::string_view text);
size_t o200k_word(std::string_view text);
size_t tekken_word(std::string_view text);  // Mistral's

size_t digit_or_rest(std::string_view text);   // one number (\p{N}), or all before the next
size_t digits_or_rest(std::string_view text);  // a run of numbers, or all before the next
size_t metaspace_word(std::string_view text);  // all before the next U+2581

// The splitter that stands for a regular expression; nullptr when there is none.
Splitter splitter_of_pattern(std::string_view pattern);
// The regular expression of a splitter that has one; "" otherwise.
std::string_view pattern_of_splitter(Splitter splitter);

// Calls use(word) for all words of `text`. The second splitter splits the words of the first, and
// so on.
template <typename Use>
void for_each_word(std::span<const Splitter> splitters, std::string_view text, const Use& use) {
  if (splitters.empty()) {
    if (!text.empty()) use(text);
    return;
  }
  while (!text.empty()) {
    const size_t length = splitters.front()(text);
    if (splitters.size() == 1)
      use(text.substr(0, length));
    else
      for_each_word(splitters.subspan(1), text.substr(0, length), use);
    text.remove_prefix(length);
  }
}

}  // namespace axonn
