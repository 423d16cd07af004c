#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "axonn/data/tokenizer/tokenizer.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"

namespace axonn {

// The text that a model writes now and then while it is trained.
struct TextSamples {
  std::string prompt;    // empty: as Tokenizer::beginning()
  int64_t tokens = 100;  // most tokens to add
};

// UserError without a tokenizer, or if the prompt has no tokens, or more than the model reads.
void check_samples(const TextSamples& samples, const std::optional<Tokenizer>& tokenizer, int64_t longest);

// The prompt and its continuation, drawn with temperature 0.8 and always the same numbers; whole
// characters, but for the last one. Every rank of the grid calls it and gets the same. `stop` is
// asked after every token; if it is true on all ranks, there is no text.
std::optional<std::string> continued_text(Context& context, Decoder& model, const Tokenizer& tokenizer,
                                          const TextSamples& samples, const std::function<bool()>& stop);

}  // namespace axonn
