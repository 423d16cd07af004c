#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/trainer.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Change = std::function<void(TrainConfig&)>;

TEST(TrainConfig, DefaultsAreFine) { EXPECT_NO_THROW(check_train({})); }

TEST(TrainConfig, EveryValueThatMeansNothingIsRefusedByName) {
  const std::vector<std::pair<std::string, Change>> changes = {
      {"steps must be at least 1, got 0", [](auto& c) { c.steps = 0; }},
      {"batch must be at least 1, got -8", [](auto& c) { c.batch = -8; }},
      {"micro_batch must be at least 0, got -1", [](auto& c) { c.micro_batch = -1; }},
      {"learning_rate must be at least 0, got -0.1", [](auto& c) { c.optimizer.learning_rate = -0.1; }},
      {"learning_rate_end must be", [](auto& c) { c.learning_rate_end = -1; }},
      {"learning_rate_decay must be in (0, 1], got 0", [](auto& c) { c.learning_rate_decay = 0; }},
      {"learning_rate_decay must be in (0, 1], got 1.5", [](auto& c) { c.learning_rate_decay = 1.5; }},
      {"warmup must be", [](auto& c) { c.warmup = -1; }},
      {"weight_decay must be", [](auto& c) { c.optimizer.weight_decay = -1; }},
      {"ema must be in [0, 1), got 1", [](auto& c) { c.optimizer.ema = 1; }},
      {"beta1 must be in [0, 1), got 1", [](auto& c) { c.optimizer.beta1 = 1; }},
      {"beta2 must be", [](auto& c) { c.optimizer.beta2 = -0.1; }},
      {"epsilon must be", [](auto& c) { c.optimizer.epsilon = -1e-8; }},
      {"momentum must be", [](auto& c) { c.optimizer.momentum = 1.5; }},
      {"clip must be", [](auto& c) { c.clip = -1; }},
      {"seed must be", [](auto& c) { c.seed = -1; }},
      {"minutes must be", [](auto& c) { c.minutes = -1; }},
      {"validate_every must be", [](auto& c) { c.validate_every = -1; }},
      {"save_every must be", [](auto& c) { c.save_every = -1; }},
      {"save_memory must be 0 or at least 1048576 bytes, got 1000", [](auto& c) { c.save_memory = 1000; }},
      {"keep must be at least 1, got 0", [](auto& c) { c.keep = 0; }},
      {"check_replicas must be", [](auto& c) { c.check_replicas = -1; }},
      {"log_every must be", [](auto& c) { c.log_every = -1; }},
  };
  for (const auto& [sentence, change] : changes) {
    TrainConfig config;
    change(config);
    try {
      check_train(config);
      ADD_FAILURE() << "no error: " << sentence;
    } catch (const UserError& error) {
      EXPECT_TRUE(error.sentence().starts_with(sentence)) << error.sentence();
    }
  }
}

TEST(TrainConfig, MicroBatchZeroMeansNoAccumulation) {
  EXPECT_EQ((TrainConfig{.batch = 16}).rows({.z = 2, .data = 2}), 4);
  EXPECT_EQ((TrainConfig{.batch = 16, .micro_batch = 2}).rows({.z = 2, .data = 2}), 2);
  EXPECT_EQ((TrainConfig{.batch = 2}).rows({.z = 2, .data = 2}), 1);  // plan_batch reports the error
  EXPECT_EQ((TrainConfig{.batch = 16}).rows({.z = 4, .data = 2}, 2), 4);
}

// Of 4 x 2 ranks, 2 at a time have the same samples.
TEST(BatchPlan, GivesRanksThatDivideSequencesTheSameSamples) {
  const GridShape grid = {.z = 4, .data = 2};
  const auto first = [&](int z, int data) {
    return plan_batch(16, 2, grid, {.z = z, .data = data}, 2).first_sample(1, 1);
  };
  EXPECT_EQ(plan_batch(16, 2, grid, {}, 2).micro_batches, 2);
  EXPECT_EQ(first(0, 0), 16 + 8);
  EXPECT_EQ(first(1, 0), first(0, 0));
  EXPECT_EQ(first(2, 0), first(0, 0) + 2);
  EXPECT_EQ(first(3, 1), first(0, 0) + 6);
  EXPECT_EQ(plan_micro_batches(16, 4, grid, {}, 2).micro_batch, 1);
  EXPECT_EQ(batch_text(plan_batch(16, 2, grid, {}, 2), "sequences", grid, 2),
            "batch 16 = 2 micro-batches x 2 sequences per 2 ranks x z 4 / 2 x data 2");
  EXPECT_USER_ERROR(plan_batch(16, 2, grid, {}, 3), "context must divide z");
  EXPECT_USER_ERROR((TrainConfig{.batch = 16}).rows({.z = 2, .data = 3}, 8), "context must divide z");
  EXPECT_USER_ERROR(plan_batch(18, 2, grid, {}, 2), "batch must divide by micro_batch * z / context * data",
                    "2 * 4 / 2 * 2 = 8", "nearest batches: 16, 24");
}

}  // namespace
}  // namespace axonn
