#include "axonn/tasks/text/generation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using at::Tensor;
constexpr const char* kWhere = "tasks.generation";

void check(const std::vector<std::vector<int32_t>>& prompts, const GenerationOptions& options) {
  AXONN_CHECK(!prompts.empty() && std::ranges::none_of(prompts, [](const auto& prompt) { return prompt.empty(); }),
              kWhere, "each prompt must hold at least one token");
  AXONN_CHECK(options.temperature >= 0 && options.tokens >= 0 && options.top_k >= 0, kWhere,
              "temperature, tokens and top_k must not be negative, got ", options.temperature, ", ", options.tokens,
              " and ", options.top_k);
  AXONN_CHECK(options.top_p > 0 && options.top_p <= 1, kWhere, "top_p must be above 0 and at most 1, got ",
              options.top_p);
}

// The place of a draw: which text, and which of its new tokens.
struct Draw {
  uint32_t text;
  uint64_t token;
};

// Draws a token from unnormalised log-probabilities over the whole vocabulary.
int32_t draw(const Tensor& logits, const GenerationOptions& options, const Draw& place) {
  const Tensor wide = logits.to(at::kCPU, at::kDouble).contiguous();
  const double* value = wide.const_data_ptr<double>();
  const int64_t all = options.vocabulary > 0 ? std::min(options.vocabulary, wide.numel()) : wide.numel();
  if (options.temperature == 0) return static_cast<int32_t>(std::max_element(value, value + all) - value);
  const auto less_likely = [&](int32_t a, int32_t b) { return value[a] != value[b] ? value[a] < value[b] : a > b; };
  std::vector<int32_t> tokens(static_cast<size_t>(all));  // a heap: only those that are asked for are sorted
  std::iota(tokens.begin(), tokens.end(), 0);
  if (options.top_k > 0 && options.top_k < all) {
    std::ranges::nth_element(tokens, tokens.begin() + options.top_k,
                             [&](int32_t a, int32_t b) { return less_likely(b, a); });
    tokens.resize(static_cast<size_t>(options.top_k));
  }
  std::ranges::make_heap(tokens, less_likely);
  const double most = value[tokens.front()];
  const auto weight = [&](int32_t token) { return std::exp((value[token] - most) / options.temperature); };
  const auto next = [&] {
    std::ranges::pop_heap(tokens, less_likely);
    const int32_t token = tokens.back();
    tokens.pop_back();
    return token;
  };
  double total = 0;
  for (const int32_t token : tokens) total += weight(token);
  if (options.top_p < 1) {
    std::vector<int32_t> kept;
    double of_kept = 0;
    while (!tokens.empty() && of_kept < options.top_p * total) of_kept += weight(kept.emplace_back(next()));
    tokens = std::move(kept);  // the most likely first is a heap, too
    total = of_kept;
  }
  double left = to_uniform(philox(options.seed, place.token, place.text, philox_stream("sampling", ""))[0]) * total;
  while (true) {
    const int32_t token = next();
    left -= weight(token);
    if (left < 0 || tokens.empty()) return token;
  }
}

// The texts of a generation, and what the model has seen of them.
class Texts {
 public:
  Texts(Context& context, Decoder& model, std::vector<std::vector<int32_t>> texts, const GenerationOptions& options)
      : context_(context),
        model_(model),
        texts_(std::move(texts)),
        longest_(model.config().shape.sequence),
        cached_(options.cached) {
    int64_t most = 0;
    for (const auto& text : texts_) most = std::max(most, static_cast<int64_t>(text.size()));
    room_ = std::min(longest_, most + options.tokens);
  }

  std::vector<std::vector<int32_t>>& all() { return texts_; }

  // Log-probabilities of the next token of each text, on every rank: (texts, vocabulary).
  Tensor next() {
    const bool goes_on =
        cached_ && state_ && std::ranges::all_of(state_->lengths, [&](int64_t length) { return length < longest_; });
    if (!state_) state_ = model_.begin_decoding(static_cast<int64_t>(texts_.size()), room_);
    if (!goes_on) state_->lengths.assign(texts_.size(), 0);
    std::vector<int64_t> counts;
    for (const auto& text : texts_)
      counts.push_back(goes_on ? 1 : std::min(static_cast<int64_t>(text.size()), longest_));
    const Value logits = model_.decode(last_tokens(counts), counts, *state_);
    return redistribute(context_, logits, Layout::replicated()).tensor;
  }

 private:
  Tensor last_tokens(const std::vector<int64_t>& counts) const {
    const Tensor ids = at::zeros({static_cast<int64_t>(texts_.size()), std::ranges::max(counts)}, at::kLong);
    for (size_t i = 0; i < texts_.size(); ++i)
      std::copy_n(texts_[i].end() - counts[i], counts[i],
                  ids.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * ids.size(1));
    return ids.to(context_.options().device);
  }

  Context& context_;
  Decoder& model_;
  std::vector<std::vector<int32_t>> texts_;
  int64_t longest_, room_;
  bool cached_;
  std::optional<DecodingState> state_;
};

}  // namespace

std::vector<std::vector<int32_t>> generate_texts(Context& context, Decoder& model,
                                                 std::vector<std::vector<int32_t>> prompts,
                                                 const GenerationOptions& options, const OnToken& on_token) {
  check(prompts, options);
  const Evaluating evaluating(model, context, Phase::generate);
  Texts texts(context, model, std::move(prompts), options);
  std::vector<std::vector<int32_t>> results(texts.all());
  std::vector<bool> ended(results.size(), false);
  Communicator& everyone = context.communicators().on_cpu(AxisSet::all());
  const Tensor tokens = at::empty({std::ssize(results)}, at::kInt);
  auto* const drawn = tokens.mutable_data_ptr<int32_t>();
  const auto all_ended = [&] { return std::ranges::find(ended, false) == ended.end(); };
  for (int64_t i = 0; i < options.tokens && !all_ended(); ++i) {
    const Tensor logits = texts.next();
    // Replicas on unlike processors may round to another token, and would end elsewhere.
    if (everyone.rank() == 0)
      for (uint32_t text = 0; text < results.size(); ++text)
        drawn[text] = draw(logits[int64_t{text}], options, {text, static_cast<uint64_t>(i)});
    everyone.broadcast(tokens, 0, {.tag = "drawn tokens"}).wait();
    for (size_t text = 0; text < results.size(); ++text) {
      const int32_t token = drawn[text];
      texts.all()[text].push_back(token);  // also where the text has ended, so that all go on alike
      if (ended[text]) continue;
      results[text].push_back(token);
      const bool last = std::ranges::find(options.end_tokens, token) != options.end_tokens.end();
      ended[text] = (on_token && !on_token(text, token)) || last;
    }
  }
  return results;
}

}  // namespace axonn
