#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn {

// How a tokenizer splits a text into words before it merges bytes: as the tokenizers of these
// models do. Qwen 2's also brings the text into Unicode's form NFC; SmolLM's makes each digit a
// word, and splits the rest as GPT-2's.
enum class WordPattern : uint8_t { gpt2, llama3, qwen2, smollm, o200k };

template <>
struct Names<WordPattern> {
  static constexpr Named<WordPattern> all[] = {{"gpt2", WordPattern::gpt2},
                                               {"llama3", WordPattern::llama3},
                                               {"qwen2", WordPattern::qwen2},
                                               {"smollm", WordPattern::smollm},
                                               {"o200k", WordPattern::o200k}};
};

}  // namespace axonn
