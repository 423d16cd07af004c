// The log-probabilities of a random network, and the losses and choices made of them, are those of
// plain LibTorch on whole logits: on every grid, for texts of any lengths.
#include "axonn/tasks/text/evaluation.hpp"

#include <algorithm>
#include <iterator>
#include <random>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/tasks/text/text_task.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/every_grid.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using namespace test;
using Tokens = std::vector<int32_t>;

constexpr double kRelative = 1e-12;
constexpr int64_t kSequence = 8;

DecoderConfig small() {
  return {.shape = {.layers = 2, .hidden = 24, .heads = 4, .sequence = kSequence, .vocabulary = 50}};
}

Tokens random_tokens(size_t length, uint32_t seed) {
  std::mt19937 engine(seed);
  Tokens tokens(length);
  std::ranges::generate(tokens, [&] { return static_cast<int32_t>(engine() % 50); });
  return tokens;
}

// The same text on every rank, in a forward of its own.
double on_whole_logits(Context& context, Decoder& model, const ScoredText& text) {
  const Evaluating evaluating(model, context, Phase::evaluate);
  const at::Tensor ids = at::tensor(std::vector<int64_t>(text.tokens.begin(), text.tokens.end()), at::kLong);
  const int64_t inputs = ids.size(0) - 1;
  const Value logits = model.forward(ids.narrow(0, 0, inputs).unsqueeze(0));
  const at::Tensor whole = redistribute(context, logits, Layout::replicated()).tensor[0];
  const at::Tensor of_tokens = at::log_softmax(whole, 1).gather(1, ids.narrow(0, 1, inputs).unsqueeze(1));
  return of_tokens.narrow(0, inputs - text.scored, text.scored).sum().item<double>();
}

class EvaluationOnEveryGrid : public testing::Test {
 protected:
  static void for_every_grid(const std::function<void(Context&, Decoder&)>& work) {
    for (const GridShape& grid : every_grid()) {
      SCOPED_TRACE(grid.to_string());
      Context context(test_environment(), grid, {.dtype = at::kDouble});
      Decoder model(context, small());
      const Parameters parameters = context.materialize(model, 1);
      work(context, model);
    }
  }
};

TEST_F(EvaluationOnEveryGrid, LogProbabilitiesAreThoseOfWholeLogits) {
  const Tokens text = random_tokens(29, 1);
  const std::span<const int32_t> all = text;
  std::vector<ScoredText> texts = {{.tokens = all.first(2), .scored = 1}, {.tokens = all.first(6), .scored = 2}};
  for (const int64_t stride : {0, 3, 8})
    std::ranges::copy(windows_of(text, kSequence, stride), std::back_inserter(texts));
  std::vector<double> on_first_grid;
  for_every_grid([&](Context& context, Decoder& model) {
    std::vector<double> expected;
    for (const ScoredText& one : texts) expected.push_back(on_whole_logits(context, model, one));
    if (on_first_grid.empty()) on_first_grid = expected;
    for (const int64_t rows : {1, 3, 100}) {
      const std::vector<double> got = log_probabilities(context, model, texts, {.rows = rows});
      ASSERT_EQ(got.size(), texts.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i] / expected[i], 1, kRelative) << i << " in rows of " << rows;
        EXPECT_NEAR(got[i] / on_first_grid[i], 1, kRelative) << i << " in rows of " << rows;
      }
    }
  });
}

TEST_F(EvaluationOnEveryGrid, OneTextIsEnoughForAllRanks) {
  const Tokens text = random_tokens(5, 2);
  for_every_grid([&](Context& context, Decoder& model) {
    const TextScore score = score_texts(context, model, windows_of(text, kSequence));
    const double expected = -on_whole_logits(context, model, {.tokens = text, .scored = 4});
    EXPECT_EQ(score.tokens, 4);
    EXPECT_NEAR(score.nats / expected, 1, kRelative);
    EXPECT_NEAR(score.loss() / (expected / 4), 1, kRelative);
    EXPECT_NEAR(score.perplexity() / std::exp(expected / 4), 1, 1e-11);
    EXPECT_NEAR(score.bits_per_byte(9) / (expected / std::log(2) / 9), 1, kRelative);
  });
}

TEST_F(EvaluationOnEveryGrid, TheLossOfTheHeldOutWindowsIsThatOfValidation) {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  const TokenData data = TokenData::load({.data = {{.path = scratch.file("text", text)}}, .validation_fraction = 0.3});
  const TokenData::Range& range = data.held_out().front();
  const auto windows = static_cast<size_t>((range.tokens() - 1) / kSequence);
  std::vector<int64_t> ids(windows * kSequence + 1);
  range.source.read(range.begin, ids);
  const Tokens held_out(ids.begin(), ids.end());
  for_every_grid([&](Context& context, Decoder& model) {
    TextTask task(context, model, data, /*seed=*/1, /*validation_rows=*/2);
    const TextScore score = score_texts(context, model, windows_of(held_out, kSequence), {.rows = 3});
    EXPECT_EQ(score.tokens, static_cast<int64_t>(windows) * kSequence);
    EXPECT_NEAR(score.loss() / task.validate().value(), 1, kRelative);
  });
}

// Contexts of 3 and 12 tokens, of which a text of 9 tokens takes the last ones.
std::vector<Question> some_questions() {
  std::vector<Question> questions;
  for (size_t i = 0; i < 7; ++i) {
    Question question{.context = random_tokens(i % 2 == 0 ? 3 : 12, static_cast<uint32_t>(10 + i)), .label = i % 3};
    for (size_t ending = 0; ending < 3 + i % 2; ++ending)
      question.endings.push_back(
          {.tokens = random_tokens(1 + (i * ending) % 6, static_cast<uint32_t>(50 + 9 * i + ending)),
           .characters = static_cast<int64_t>(2 + (3 * i + 5 * ending) % 7),
           .bytes = static_cast<int64_t>(3 + (5 * i + 4 * ending) % 8)});
    questions.push_back(question);
  }
  return questions;
}

// How often the right ending is the first of those with the greatest value(question, ending).
int64_t count_right(const std::vector<Question>& questions, const std::function<double(size_t, size_t)>& value) {
  int64_t right = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    std::vector<double> values;
    for (size_t ending = 0; ending < questions[i].endings.size(); ++ending) values.push_back(value(i, ending));
    right += std::ranges::max_element(values) - values.begin() == static_cast<std::ptrdiff_t>(questions[i].label);
  }
  return right;
}

TEST_F(EvaluationOnEveryGrid, ChoicesAreTheGreatestSumsByEachLength) {
  const std::vector<Question> questions = some_questions();
  ASSERT_TRUE(have_texts(questions));
  for_every_grid([&](Context& context, Decoder& model) {
    const ChoiceScore score = score_questions(context, model, questions, {.rows = 3});
    ASSERT_EQ(score.log_probabilities.size(), questions.size());
    std::vector<std::vector<double>> sums(questions.size());
    for (size_t i = 0; i < questions.size(); ++i)
      for (const Question::Ending& ending : questions[i].endings) {
        const Tokens& tokens = ending.tokens;
        Tokens text = questions[i].context;
        text.insert(text.end(), tokens.begin(), tokens.end());
        if (text.size() > kSequence + 1) text.erase(text.begin(), text.end() - (kSequence + 1));
        sums[i].push_back(on_whole_logits(context, model, {.tokens = text, .scored = std::ssize(tokens)}));
        EXPECT_NEAR(score.log_probabilities[i][sums[i].size() - 1] / sums[i].back(), 1, kRelative) << i;
      }
    const auto by = [&](const auto& length) {
      return count_right(questions, [&](size_t i, size_t ending) {
        return sums[i][ending] / static_cast<double>(length(questions[i].endings[ending]));
      });
    };
    EXPECT_EQ(score.right.plain, by([](const Question::Ending&) { return 1; }));
    EXPECT_EQ(score.right.by_token, by([](const Question::Ending& ending) { return ending.tokens.size(); }));
    EXPECT_EQ(score.right.by_character, by([](const Question::Ending& ending) { return ending.characters; }));
    EXPECT_EQ(score.right.by_byte, by([](const Question::Ending& ending) { return ending.bytes; }));
  });
}

TEST(Evaluation, OfLengthsThatAreNotKnownHasNone) {
  Context context(test_environment(), every_grid().front(), {.dtype = at::kDouble});
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  std::vector<Question> questions = some_questions();
  questions[3].endings[0].characters = questions[3].endings[0].bytes = 0;
  EXPECT_FALSE(have_texts(questions));
  const ChoiceScore score = score_questions(context, model, questions);
  EXPECT_EQ(score.right.by_character, 0);
  EXPECT_EQ(score.right.by_byte, 0);
}

TEST(Evaluation, TellsItsProgressToTheEnd) {
  Context context(test_environment(), every_grid().front(), {.dtype = at::kDouble});
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  const Tokens text = random_tokens(100, 3);
  std::vector<int64_t> heard;
  const auto hear = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, 13);
    heard.push_back(done);
  };
  score_texts(context, model, windows_of(text, kSequence), {.rows = 1, .progress = hear});
  EXPECT_TRUE(std::ranges::is_sorted(heard));
  EXPECT_EQ(heard.back(), 13);
  const int64_t groups = context.row_share().groups;
  EXPECT_EQ(std::ssize(heard), (13 + groups - 1) / groups);
}

TEST(Windows, PredictEachTokenButTheFirstOnce) {
  for (const int64_t length : {1, 2, 8, 9, 10, 17, 29})
    for (const int64_t stride : {0, 1, 3, 7, 8}) {
      SCOPED_TRACE(std::to_string(length) + " tokens, stride " + std::to_string(stride));
      Tokens text(static_cast<size_t>(length));
      std::ranges::generate(text, [next = 0]() mutable { return next++; });
      int32_t predicted = 1;  // the next one
      for (const ScoredText& window : windows_of(text, kSequence, stride)) {
        EXPECT_LE(std::ssize(window.tokens), kSequence + 1);
        for (const int32_t token : window.tokens.last(static_cast<size_t>(window.scored)))
          EXPECT_EQ(token, predicted++);
        const int64_t inputs = std::ssize(window.tokens) - 1;
        const int64_t fits = stride > 0 ? std::min<int64_t>(kSequence, predicted - 1) : window.scored;
        EXPECT_EQ(inputs, fits) << "all that fits, or no overlap";
      }
      EXPECT_EQ(predicted, length);
    }
}

TEST(ScoredBytes, AreThoseOfThePredictedText) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC, z";  // 1, 2, 3, 1, 1 and 1 bytes
  const Tokens bytes = Tokenizer::bytes().encode(text), chars = Tokenizer::chars(text).encode(text);
  EXPECT_EQ(scored_bytes(Tokenizer::bytes(), windows_of(bytes, 4, 2)), 8);
  EXPECT_EQ(scored_bytes(Tokenizer::chars(text), windows_of(chars, 4)), 8);
  EXPECT_EQ(scored_bytes(Tokenizer::chars(text), windows_of(chars, 2, 1)), 8);
}

// With a tokenizer that leaves out the space before a text. A window begins inside of one.
class BytesInsideOfTexts : public testing::Test {
 protected:
  BytesInsideOfTexts() {
    scratch.file("t/tokenizer.json", llama2_json().dump());
    scratch.file("t/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  }
  Tokenizer tokenizer() const { return Tokenizer::from_files(scratch / "t"); }

  static constexpr int32_t kSpaceAb = 263;  // " ab"
  const Scratch scratch;
};

TEST_F(BytesInsideOfTexts, AreThoseOfScoredTokens) {
  EXPECT_EQ(scored_bytes(tokenizer(), windows_of(Tokens(9, kSpaceAb), 4)), 8 * 3);
}

TEST_F(BytesInsideOfTexts, AreThoseOfValidationWithoutSpecialTokens) {
  TokenDataOptions options;
  options.validation_fraction = 0.5;
  options.tokenizer = tokenizer();
  for (int i = 0; i < 30; ++i)
    options.data.push_back({.path = scratch.file("text" + std::to_string(i), "ab ab ab ab ab")});
  const TokenData data = TokenData::load(options);
  const TokenData::Range& range = data.held_out().front();
  const int64_t predicted = (range.tokens() - 1) / kSequence * kSequence;
  ASSERT_GT(predicted, 3 * kSequence);
  std::vector<int64_t> targets(static_cast<size_t>(predicted));
  range.source.read(range.begin + 1, targets);
  const auto words = std::ranges::count(targets, kSpaceAb);
  ASSERT_LT(words, predicted) << "there are ends of documents";

  Context context(test_environment(), every_grid().front(), {.dtype = at::kDouble});
  DecoderConfig config = small();
  config.shape.vocabulary = data.vocabulary();
  Decoder model(context, config);
  const Parameters parameters = context.materialize(model, 1);
  TextTask task(context, model, data, /*seed=*/1, /*validation_rows=*/2);
  EXPECT_NEAR(task.bits_per_byte(std::log(2)).value(), static_cast<double>(predicted) / static_cast<double>(3 * words),
              1e-12);
}

TEST(Evaluation, RefusesWhatMakesNoSense) {
  Context context(test_environment(), every_grid().front());
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  const Tokens text = random_tokens(20, 4), other = {1, 50, 2};
  const std::span<const int32_t> all = text;
  const auto refused = [&](const ScoredText& one, const std::string& words) {
    EXPECT_USER_ERROR(log_probabilities(context, model, std::vector<ScoredText>(1, one)), words);
  };
  refused({.tokens = all.first(10), .scored = 1}, "at most 9 in all, got 1 scored of 10 tokens");
  refused({.tokens = all.first(4), .scored = 4}, "a token before the scored ones");
  refused({.tokens = all.first(4), .scored = 0}, "a token before the scored ones");
  refused({.tokens = other, .scored = 1}, "tokens must be from 0 to 49, as the model's vocabulary says, got 50");
  EXPECT_USER_ERROR(log_probabilities(context, model, {}), "at least one text");
  EXPECT_USER_ERROR(windows_of(text, 8, 9), "a stride at most as many, got 8 and 9");
  EXPECT_USER_ERROR(windows_of(text, 0), "at least 1 token");
  std::vector<Question> questions = some_questions();
  questions[2].endings[1].tokens = random_tokens(9, 5);
  EXPECT_USER_ERROR(score_questions(context, model, questions), "question 3 needs a context, and endings of 1 to 8");
}

}  // namespace
}  // namespace axonn
