#include "axonn/tasks/text/text_samples.hpp"

#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/tasks/text/generation.hpp"
#include "axonn/tasks/text/streamed_text.hpp"

namespace axonn {
namespace {

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt) {
  if (prompt.empty()) return tokenizer.beginning();
  return tokenizer.encode(prompt, {.find_special = true, .add_special = true});
}

}  // namespace

void check_samples(const TextSamples& samples, const std::optional<Tokenizer>& tokenizer, int64_t longest) {
  AXONN_CHECK(tokenizer, "tasks.text_samples",
              "--sample-every writes texts, and these data have no tokenizer; name one with --tokenizer");
  const auto count = static_cast<int64_t>(prompt_tokens(*tokenizer, samples.prompt).size());
  AXONN_CHECK(count >= 1, "tasks.text_samples",
              "--sample-prompt has no tokens: the tokenizer leaves nothing of it; give another one");
  AXONN_CHECK(count <= longest, "tasks.text_samples", "--sample-prompt has ", count,
              " tokens, and this model reads at most ", longest, "; make it shorter");
}

std::optional<std::string> continued_text(Context& context, Decoder& model, const Tokenizer& tokenizer,
                                          const TextSamples& samples, const std::function<bool()>& stop) {
  GenerationOptions options{.tokens = samples.tokens, .vocabulary = tokenizer.vocabulary_size()};
  if (const auto end = tokenizer.end_token()) options.end_tokens = {*end};
  const std::vector<int32_t> prompt = prompt_tokens(tokenizer, samples.prompt);
  StreamedText added;
  std::string text = samples.prompt.empty() ? tokenizer.decode(prompt, {.skip_special = true}) : samples.prompt;
  bool stopped = false;
  generate_texts(context, model, {prompt}, options, [&](size_t, int32_t token) {
    if (token != tokenizer.end_token()) text += added.add(tokenizer.bytes_of(token));
    stopped = stop();
    return !stopped;
  });
  if (stopped) return std::nullopt;
  return text + added.finish();
}

}  // namespace axonn
