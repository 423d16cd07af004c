#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "axonn/data/text/questions.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"

// How well a network predicts texts, and which endings it takes for the likely ones. Every rank of
// the grid calls these functions with the same texts, and gets the same numbers. Rows are divided
// over Z and data (Context::row_share()). Sums are in fp64, and added in the order of the texts on
// every grid.
namespace axonn {

// A text of which a network predicts the last `scored` tokens, each from all tokens before it.
struct ScoredText {
  std::span<const int32_t> tokens;  // at most the model's `sequence` + 1
  int64_t scored = 1;               // at least 1, and below the number of tokens
};

struct EvaluationOptions {
  int64_t rows = 4;  // texts per rank in one forward pass
  // Called on every rank after each forward pass, with the number of texts that are scored.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

// The log-probability of each text's scored tokens together, in nats. UserError for a text that
// does not fit the model.
std::vector<double> log_probabilities(Context& context, Decoder& model, std::span<const ScoredText> texts,
                                      const EvaluationOptions& options = {});

// Windows of a text that predict each of its tokens but the first once. stride = 0: windows of
// `sequence` inputs one after the other, of which the last may be shorter. Otherwise the first one
// predicts `sequence` tokens, each other one the next `stride`, with all inputs before them that
// fit as their context. They refer to `text`. A text of one token has none.
std::vector<ScoredText> windows_of(std::span<const int32_t> text, int64_t sequence, int64_t stride = 0);

struct TextScore {
  double nats = 0;     // -log of the probability of all predicted tokens
  int64_t tokens = 0;  // predicted tokens

  double loss() const { return nats / static_cast<double>(tokens); }  // nats per token
  double perplexity() const { return std::exp(loss()); }              // depends on the tokenizer
  // `bytes`: those of the predicted tokens' text. Comparable between tokenizers.
  double bits_per_byte(int64_t bytes) const { return nats / std::log(2.0) / static_cast<double>(bytes); }
};
TextScore score_texts(Context& context, Decoder& model, std::span<const ScoredText> texts,
                      const EvaluationOptions& options = {});

// Bytes of the text of the scored tokens.
int64_t scored_bytes(const Tokenizer& tokenizer, std::span<const ScoredText> texts);

// Multiple choice. A network takes the ending whose tokens have the greatest log-probability given
// the context (the first of several): their sum, or the sum divided by the ending's length.
struct ChoiceScore {
  struct Right {
    int64_t plain = 0;         // acc
    int64_t by_token = 0;      // acc_norm of llm.c
    int64_t by_character = 0;  // acc_norm of lm-evaluation-harness
    int64_t by_byte = 0;       // acc_bytes of lm-evaluation-harness, and acc_norm of its paper
  };
  Right right;  // questions whose right ending is taken; 0 by character and byte if lengths are not known
  std::vector<std::vector<double>> log_probabilities;  // question by question, of its endings
};
// A context that is too long for the model loses its beginning. UserError for an ending that is too
// long.
ChoiceScore score_questions(Context& context, Decoder& model, std::span<const Question> questions,
                            const EvaluationOptions& options = {});

// Whether the lengths of all endings are known in characters and bytes.
bool have_texts(std::span<const Question> questions);

}  // namespace axonn
