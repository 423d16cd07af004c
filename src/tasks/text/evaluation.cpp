#include "axonn/tasks/text/evaluation.hpp"

#include <algorithm>
#include <iterator>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "tasks.evaluation";

// Context and ending of each ending of each question, one after the other.
std::vector<std::vector<int32_t>> joined(std::span<const Question> questions, int64_t sequence) {
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < questions.size(); ++i) {
    const std::vector<int32_t>& context = questions[i].context;
    for (const Question::Ending& one : questions[i].endings) {
      const std::vector<int32_t>& ending = one.tokens;
      const int64_t kept = std::min(std::ssize(context), sequence + 1 - std::ssize(ending));
      AXONN_CHECK(kept >= 1 && !ending.empty(), kWhere, "question ", i + 1, " needs a context, and endings of 1 to ",
                  sequence, " tokens, got ", context.size(), " and ", ending.size(), " tokens");
      std::vector<int32_t>& text = all.emplace_back(context.end() - kept, context.end());
      text.insert(text.end(), ending.begin(), ending.end());
    }
  }
  return all;
}

// Whether the right ending has the greatest log-probability per unit of length(ending).
bool takes_right(const Question& question, const std::vector<double>& sums, const auto& length) {
  size_t taken = 0;
  const auto value = [&](size_t ending) {
    return sums[ending] / static_cast<double>(length(question.endings[ending]));
  };
  for (size_t ending = 1; ending < sums.size(); ++ending)
    if (value(ending) > value(taken)) taken = ending;
  return taken == question.label;
}

}  // namespace

std::vector<ScoredText> windows_of(std::span<const int32_t> text, int64_t sequence, int64_t stride) {
  AXONN_CHECK(sequence >= 1 && stride >= 0 && stride <= sequence, kWhere,
              "a window must have at least 1 token, and a stride at most as many, got ", sequence, " and ", stride);
  const int64_t predicted = std::max<int64_t>(0, std::ssize(text) - 1);
  std::vector<ScoredText> windows;
  for (int64_t done = 0; done < predicted;) {
    const int64_t end = std::min(predicted, done + (done == 0 || stride == 0 ? sequence : stride)),
                  begin = stride == 0 ? done : std::max<int64_t>(0, end - sequence);
    windows.push_back({.tokens = text.subspan(static_cast<size_t>(begin), static_cast<size_t>(end + 1 - begin)),
                       .scored = end - done});
    done = end;
  }
  return windows;
}

TextScore score_texts(Context& context, Decoder& model, std::span<const ScoredText> texts,
                      const EvaluationOptions& options) {
  TextScore score;
  for (const double sum : log_probabilities(context, model, texts, options)) score.nats -= sum;
  for (const ScoredText& text : texts) score.tokens += text.scored;
  return score;
}

// Of the tokens: a text that begins with them may lose a space.
int64_t scored_bytes(const Tokenizer& tokenizer, std::span<const ScoredText> texts) {
  int64_t bytes = 0;
  for (const ScoredText& text : texts)
    for (const int32_t token : text.tokens.last(static_cast<size_t>(text.scored)))
      bytes += std::ssize(tokenizer.bytes_of(token));
  return bytes;
}

ChoiceScore score_questions(Context& context, Decoder& model, std::span<const Question> questions,
                            const EvaluationOptions& options) {
  const std::vector<std::vector<int32_t>> texts = joined(questions, model.config().shape.sequence);
  std::vector<ScoredText> scored;
  for (const Question& question : questions)
    for (const Question::Ending& ending : question.endings)
      scored.push_back({.tokens = texts[scored.size()], .scored = std::ssize(ending.tokens)});
  const std::vector<double> sums = log_probabilities(context, model, scored, options);

  ChoiceScore score;
  const bool lengths_known = have_texts(questions);
  for (auto first = sums.begin(); const Question& question : questions) {
    const auto& here = score.log_probabilities.emplace_back(first, first + std::ssize(question.endings));
    first += std::ssize(question.endings);
    const auto right = [&](const auto& length) { return takes_right(question, here, length) ? 1 : 0; };
    score.right.plain += right([](const Question::Ending&) { return 1; });
    score.right.by_token += right([](const Question::Ending& ending) { return ending.tokens.size(); });
    if (!lengths_known) continue;
    score.right.by_character += right([](const Question::Ending& ending) { return ending.characters; });
    score.right.by_byte += right([](const Question::Ending& ending) { return ending.bytes; });
  }
  return score;
}

bool have_texts(std::span<const Question> questions) {
  return std::ranges::all_of(questions, [](const Question& question) {
    return std::ranges::all_of(
        question.endings, [](const Question::Ending& ending) { return ending.characters > 0 && ending.bytes > 0; });
  });
}

}  // namespace axonn
