// A UNet trained on drawn shapes: the same losses on every grid.
#include "axonn/layers/loss.hpp"
#include "axonn/tasks/images/image_task.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "axonn/train/trainer.hpp"
#include "support/rank_test.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kBatch = 16;

UnetConfig config_of(DiffusionLoss loss) {
  return {.shape = {.image = 8,
                    .base = 8,
                    .multipliers = {1, 2},
                    .blocks = 1,
                    .attention = {4},
                    .heads = 4,
                    .groups = 2,
                    .classes = 4,
                    .learned_variance = loss == DiffusionLoss::hybrid},
          .dropout = 0.1};
}

struct Settings {
  DiffusionLoss loss = DiffusionLoss::simple;
  int64_t micro_batches = 1;
  int64_t steps = 3;
  int64_t times = 100;
  ImageTaskOptions task = {.validation_images = 21, .validation_rows = 2};
};

struct Losses {
  std::vector<double> steps;
  double validation = 0;
};

// Some steps of AdamW.
Losses train_on(Context& context, const Settings& settings) {
  const int64_t micro_batches = settings.micro_batches;
  Unet network(context, config_of(settings.loss));
  const Parameters parameters = context.materialize(network, 1);
  TrainConfig training;
  training.optimizer.learning_rate = 1e-3;
  const auto optimizer = make_optimizer(context, parameters, training);
  const Diffusion diffusion({.times = settings.times, .schedule = NoiseSchedule::cosine, .loss = settings.loss});
  const auto shapes = make_shapes(8, 100, 1), held_out = make_shapes(8, 21, 2);
  ImageTask task(context, network, diffusion, *shapes, held_out.get(), settings.task);
  const GridShape& grid = context.shape();
  const int64_t groups = int64_t{grid.z} * grid.data, mine = int64_t{context.at().data} * grid.z + context.at().z,
                rows = kBatch / micro_batches / groups;
  Losses losses;
  for (int64_t step = 0; step < settings.steps; ++step) {
    auto running = context.begin_step({.micro_batches = static_cast<int>(micro_batches)});
    double sum = 0;
    for (int64_t j = 0; j < micro_batches; ++j) {
      const int64_t first = step * kBatch + j * (kBatch / micro_batches) + mine * rows;
      context.set_samples({.seed = 1, .first = first});
      const at::Tensor mean_loss = mean(task.loss_sum(task.inputs(first, rows)), static_cast<double>(kBatch), context);
      mean_loss.backward();
      sum += mean_loss.item<double>();
    }
    running.finish();
    optimizer->step({.max_norm = 1, .learning_rate = training.optimizer.learning_rate});
    task.after_step();
    losses.steps.push_back(sum);
  }
  losses.validation = *task.validate();
  return losses;
}

Losses train_serially(const Settings& settings) {
  Context one(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  return train_on(one, settings);
}

// Every grid, or those at `turn`, `turn` + `turns` and so on.
void expect_on_every_grid(const Settings& settings, const Losses& serial, size_t turn = 0, size_t turns = 1) {
  const std::vector<GridShape> grids = factorisations(test_environment().ranks());
  for (size_t at = turn; at < grids.size(); at += turns) {
    const GridShape& grid = grids[at];
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const Losses losses = train_on(context, settings);
    for (size_t i = 0; i < losses.steps.size(); ++i)
      EXPECT_NEAR(losses.steps[i] / serial.steps[i], 1, 1e-10) << "step " << i << " on " << grid.to_string();
    EXPECT_NEAR(losses.validation / serial.validation, 1, 1e-10) << "validation on " << grid.to_string();
  }
}

// On more than two ranks each grid takes one of the four settings. The nightly run takes all.
TEST(UnetTraining, HasTheLossesOfOneRankOnEveryGrid) {
  const size_t turns = test_environment().ranks() > 2 && !tests_everything() ? 4 : 1;
  size_t turn = 0;
  for (const DiffusionLoss loss : {DiffusionLoss::simple, DiffusionLoss::hybrid})
    for (const int64_t micro_batches : {1, 2}) {
      const Settings settings{.loss = loss, .micro_batches = micro_batches};
      expect_on_every_grid(settings, train_serially(settings), turn++ % turns, turns);
    }
}

// After two steps, two times have their 20 losses. Then draws follow them, with any number of
// micro-batches.
TEST(UnetTraining, DrawsTimesByImportanceOnEveryGrid) {
  Settings settings{
      .steps = 4, .times = 2, .task = {.importance = true, .validation_images = 21, .validation_rows = 2}};
  const Losses serial = train_serially(settings);
  settings.micro_batches = 2;
  expect_on_every_grid(settings, serial);
  settings.task.importance = false;
  const Losses uniform = train_serially(settings);
  EXPECT_NEAR(serial.steps[0] / uniform.steps[0], 1, 1e-10);
  EXPECT_GT(std::abs(serial.steps[3] / uniform.steps[3] - 1), 1e-6);
}

TEST(UnetTraining, LeavesClassesOutBySampleNumber) {
  Settings settings{.task = {.class_dropout = 0.4, .validation_images = 21, .validation_rows = 2}};
  const Losses serial = train_serially(settings);
  expect_on_every_grid(settings, serial);
  settings.task.class_dropout = 0;
  EXPECT_GT(std::abs(train_serially(settings).steps[2] / serial.steps[2] - 1), 1e-6);
  settings.task.class_dropout = 1;  // no class is ever seen, so classes learn nothing
  EXPECT_GT(std::abs(train_serially(settings).steps[2] / serial.steps[2] - 1), 1e-6);
}

TEST(UnetTraining, RefusesImagesThatDoNotFit) {
  Context context(test_environment(), {.data = test_environment().ranks()});
  Unet network(context, config_of(DiffusionLoss::simple));
  const Diffusion simple({}), hybrid({.loss = DiffusionLoss::hybrid});
  const auto fitting = make_shapes(8, 10, 1), larger = make_shapes(16, 10, 1);
  EXPECT_USER_ERROR(ImageTask(context, network, simple, *larger, nullptr, {}),
                    "the network takes images of 8 x 8, got shapes: 10 images of 16 x 16");
  EXPECT_USER_ERROR(ImageTask(context, network, hybrid, *fitting, nullptr, {}),
                    "the network gives 3 channels, this loss needs 6");
  EXPECT_USER_ERROR(ImageTask(context, network, simple, *fitting, nullptr, {.class_dropout = 1.5}),
                    "class_dropout must be in [0, 1], got 1.5");
  UnetConfig classless = config_of(DiffusionLoss::simple);
  classless.shape.classes = 0;
  Unet other(context, classless);
  EXPECT_USER_ERROR(ImageTask(context, other, simple, *fitting, nullptr, {.class_dropout = 0.1}),
                    "class_dropout needs a network with classes");
}

}  // namespace
}  // namespace axonn
