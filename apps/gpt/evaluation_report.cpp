#include "evaluation_report.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::ordered_json;

void print_json(const Json& result) { std::printf("%s\n", result.dump().c_str()); }

void print_row(const char* name, double value, const char* unit) {
  std::printf("%-24s %12.5f  %s\n", name, value, unit);
}

void print_row(const char* name, int64_t count, const char* unit) {
  std::printf("%-24s %12lld  %s\n", name, static_cast<long long>(count), unit);
}

}  // namespace

void print_result(const TextResult& result, bool json) {
  const axonn::TextScore& score = result.score;
  const double bits_per_byte = score.bits_per_byte(result.bytes);
  if (json) {
    const Json values = {{"loss", score.loss()},           {"perplexity", score.perplexity()},
                         {"bits_per_byte", bits_per_byte}, {"tokens", score.tokens},
                         {"bytes", result.bytes},          {"windows", result.windows},
                         {"sequence", result.sequence},    {"stride", result.stride}};
    return print_json(values);
  }
  print_row("loss", score.loss(), "nats per token");
  print_row("perplexity", score.perplexity(), "of this tokenizer's tokens");
  print_row("bits per byte", bits_per_byte, "comparable between tokenizers");
  print_row("predicted", score.tokens, "tokens");
  print_row("of", result.bytes, "bytes");
  print_row("in", result.windows, "windows");
}

void print_result(const axonn::ChoiceScore& score, std::span<const axonn::Question> questions, bool json) {
  const bool has_texts = axonn::have_texts(questions);
  const auto share = [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(questions.size()); };
  const axonn::ChoiceScore::Right& right = score.right;
  if (json) {
    Json values = {
        {"questions", questions.size()}, {"acc", share(right.plain)}, {"acc_norm_token", share(right.by_token)}};
    if (has_texts) {
      values["acc_norm_character"] = share(right.by_character);
      values["acc_norm_byte"] = share(right.by_byte);
    }
    values["log_probabilities"] = score.log_probabilities;
    return print_json(values);
  }
  print_row("asked", static_cast<int64_t>(questions.size()), "questions");
  print_row("acc", share(right.plain), "by the whole ending");
  print_row("acc_norm by token", share(right.by_token), "llm.c's acc_norm");
  if (!has_texts) return;
  print_row("acc_norm by character", share(right.by_character), "lm-evaluation-harness' acc_norm");
  print_row("acc_norm by byte", share(right.by_byte), "lm-evaluation-harness' acc_bytes");
}
