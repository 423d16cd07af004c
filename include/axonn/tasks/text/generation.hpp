#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"

namespace axonn {

struct GenerationOptions {
  int64_t tokens = 200;                  // most tokens to add to each text
  double temperature = 0.8;              // 0: always the most likely token
  int64_t top_k = 0;                     // draw only from the most likely tokens; 0: from all
  double top_p = 1;                      // draw only from the most likely ones that have this probability together
  int64_t vocabulary = 0;                // only token ids below it; 0: all of the model's
  std::vector<int32_t> end_tokens = {};  // a text ends with the first of them
  uint64_t seed = 1;
  bool cached = true;  // keep keys and values of earlier tokens; otherwise compute them again for each
};

// Continues each of the prompts (token ids, at least one each; lengths may differ). Every rank of
// the grid calls it and gets the tokens that rank 0 draws: the same on any grid, up to rounding of
// the probabilities. Text number i draws other numbers than text j. Only the last `sequence` tokens
// of a text are input. `on_token`, if given, is called on every rank for each new token of a text,
// in order; the text ends when it returns false, which it does on all ranks or on none. Returns
// prompts and new tokens.
using OnToken = std::function<bool(size_t text, int32_t token)>;
std::vector<std::vector<int32_t>> generate_texts(Context& context, Decoder& model,
                                                 std::vector<std::vector<int32_t>> prompts,
                                                 const GenerationOptions& options, const OnToken& on_token = {});

}  // namespace axonn
