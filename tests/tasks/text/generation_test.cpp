// The most likely tokens of a network are those of the reference: on every grid, with and without a
// cache, by themselves and beside texts of other lengths.
#include "axonn/tasks/text/generation.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/model/hugging_face/model_directory.hpp"
#include "model/hugging_face/oracle.hpp"
#include "support/every_grid.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

std::vector<int32_t> tokens_of(const at::Tensor& ids, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(ids[0][i].item<int64_t>()));
  return tokens;
}

TEST(GenerationOnEveryGrid, OfTheMostLikelyTokensIsTheReferences) {
  constexpr int64_t kPrompt = 5;
  for (const char* name : {"llama", "llama_bf16_shards", "mistral", "qwen2", "qwen3", "gpt2"}) {
    if (!std::filesystem::exists(oracle_folder(name))) GTEST_SKIP() << "needs " << oracle_folder(name);
    const ModelDirectory directory(oracle_folder(name));
    const at::Tensor ids = Oracle(name)["greedy_ids"];
    const std::vector<int32_t> expected = tokens_of(ids, ids.size(1)), prompt = tokens_of(ids, kPrompt);
    const int64_t more = ids.size(1) - kPrompt;
    for (const GridShape& grid : every_grid()) {
      if (directory.config().shape.keys() % grid.x != 0) continue;
      Context context(test_environment(), grid, {.dtype = at::kDouble});
      Decoder model(context, {.shape = directory.config().shape});
      directory.load(context, context.materialize(model, 1));
      const std::vector<std::vector<int32_t>> prompts = {{7}, prompt, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
      for (const bool cached : {true, false}) {
        const std::string what = std::string(name) + " on " + grid.to_string() + (cached ? ", cached" : "");
        const GenerationOptions options{.tokens = more, .temperature = 0, .cached = cached};
        EXPECT_EQ(generate_texts(context, model, {prompt}, options)[0], expected) << what;
        EXPECT_EQ(generate_texts(context, model, prompts, options)[1], expected) << what << ", beside others";
      }
    }
  }
}

DecoderConfig small() { return {.shape = {.layers = 2, .hidden = 24, .heads = 6, .sequence = 8, .vocabulary = 50}}; }

TEST(Generation, GoesOnBeyondTheLongestTextWithTheLastTokens) {
  Context context(test_environment(), every_grid().front(), {.dtype = at::kDouble});
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}, {4}};
  GenerationOptions options{.tokens = 20, .temperature = 0};
  const auto cached = generate_texts(context, model, prompts, options);
  options.cached = false;
  EXPECT_EQ(cached, generate_texts(context, model, prompts, options));
  EXPECT_EQ(cached[0].size(), 23);
}

TEST(Generation, DrawsFromTheLikelyTokensAndEndsWhereItIsTold) {
  Context context(test_environment(), every_grid().front(), {.dtype = at::kDouble});
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  const GenerationOptions likely{.tokens = 6, .temperature = 0};
  const auto greedy = generate_texts(context, model, {{1, 2}}, likely)[0];
  EXPECT_EQ(generate_texts(context, model, {{1, 2}}, {.tokens = 6, .top_k = 1})[0], greedy);
  EXPECT_EQ(generate_texts(context, model, {{1, 2}}, {.tokens = 6, .top_p = 1e-9})[0], greedy);
  const auto drawn =
      generate_texts(context, model, {{1, 2}, {1, 2}}, {.tokens = 30, .temperature = 5, .vocabulary = 9});
  EXPECT_NE(drawn[0], drawn[1]);
  for (const auto& text : drawn)
    for (const int32_t token : text) EXPECT_LT(token, 9);
  GenerationOptions ends = likely;
  ends.end_tokens = {greedy[3]};
  const auto first = std::find(greedy.begin() + 2, greedy.end(), greedy[3]);
  EXPECT_EQ(generate_texts(context, model, {{1, 2}}, ends)[0], std::vector<int32_t>(greedy.begin(), first + 1));
  std::vector<int32_t> heard;
  const auto stopped = generate_texts(context, model, {{1, 2}}, likely, [&](size_t, int32_t token) {
    heard.push_back(token);
    return heard.size() < 2;
  });
  EXPECT_EQ(stopped[0], std::vector<int32_t>(greedy.begin(), greedy.begin() + 4));
  EXPECT_EQ(heard.size(), 2);
}

// As on unlike processors, only more so: the replicas have other weights.
TEST(Generation, ReplicasWriteTheTextOfRank0) {
  Communicator& everyone = test_environment().world();
  Context context(test_environment(), GridShape{.data = everyone.size()}, {.dtype = at::kDouble});
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1 + static_cast<uint64_t>(everyone.rank()));
  GenerationOptions options{.tokens = 40, .temperature = 5};
  options.end_tokens = {7, 8, 9};
  int64_t asked = 0;
  const auto text = generate_texts(context, model, {{1, 2}}, options, [&](size_t, int32_t) {
    ++asked;
    return true;
  })[0];
  std::vector<int64_t> mine(text.begin(), text.end());
  mine.resize(42, -1);
  mine.push_back(asked);
  const at::Tensor most = at::tensor(mine, at::kLong), least = most.clone();
  everyone.all_reduce(most, ReduceOp::max).wait();
  everyone.all_reduce(least, ReduceOp::min).wait();
  EXPECT_TRUE(at::equal(most, least)) << most << least;
}

TEST(Generation, RefusesWhatMakesNoSense) {
  Context context(test_environment(), every_grid().front());
  Decoder model(context, small());
  const Parameters parameters = context.materialize(model, 1);
  EXPECT_USER_ERROR(generate_texts(context, model, {}, {}), "at least one token");
  EXPECT_USER_ERROR(generate_texts(context, model, {{1}, {}}, {}), "at least one token");
  EXPECT_USER_ERROR(generate_texts(context, model, {{1}}, {.top_p = 0}), "top_p must be above 0");
  EXPECT_USER_ERROR(generate_texts(context, model, {{1}}, {.tokens = -1}), "must not be negative");
}

}  // namespace
}  // namespace axonn
