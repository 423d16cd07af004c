// A UNet trained on drawn shapes: the same losses on every grid.
#include "axonn/train/unet_task.hpp"

#include <gtest/gtest.h>

#include "axonn/train/trainer.hpp"
#include "support/user_error.hpp"
#include "train/scratch.hpp"
#include "support/rank_test.hpp"

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

struct Losses {
  std::vector<double> steps;
  double validation = 0;
};

// Three steps of AdamW in `micro_batches` each.
Losses train_on(Context& context, DiffusionLoss loss, int64_t micro_batches) {
  Unet network(context, config_of(loss));
  const Parameters parameters = context.materialize(network, 1);
  TrainConfig training;
  training.learning_rate = 1e-3;
  const auto optimizer = make_optimizer(context, parameters, training);
  const Diffusion diffusion({.times = 100, .schedule = NoiseSchedule::cosine, .loss = loss});
  const auto shapes = make_shapes(8, 100, 1), held_out = make_shapes(8, 21, 2);
  UnetTask task(context, network, diffusion, *shapes, held_out.get(), {.validation_pictures = 21, .validation_rows = 2});
  const GridShape& grid = context.shape();
  const int64_t groups = int64_t{grid.z} * grid.data, mine = int64_t{context.at().data} * grid.z + context.at().z,
                rows = kBatch / micro_batches / groups;
  Losses losses;
  for (int64_t step = 0; step < 3; ++step) {
    auto running = context.begin_step({.micro_batches = static_cast<int>(micro_batches)});
    double sum = 0;
    for (int64_t j = 0; j < micro_batches; ++j) {
      const int64_t first = step * kBatch + j * (kBatch / micro_batches) + mine * rows;
      context.set_samples({.seed = 1, .first = first});
      const at::Tensor mean_loss = mean(task.loss_sum(first, rows), static_cast<double>(kBatch), context);
      mean_loss.backward();
      sum += mean_loss.item<double>();
    }
    running.finish();
    optimizer->step({.max_norm = 1, .learning_rate = training.learning_rate});
    losses.steps.push_back(sum);
  }
  losses.validation = *task.validate();
  return losses;
}

TEST(UnetTraining, HasTheLossesOfOneRankOnEveryGrid) {
  for (const DiffusionLoss loss : {DiffusionLoss::simple, DiffusionLoss::hybrid})
    for (const int64_t micro_batches : {1, 2}) {
      Context one(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
      const Losses serial = train_on(one, loss, micro_batches);
      for (const GridShape& grid : factorisations(test_environment().ranks())) {
        Context context(test_environment(), grid, {.dtype = at::kDouble});
        const Losses losses = train_on(context, loss, micro_batches);
        for (size_t i = 0; i < losses.steps.size(); ++i)
          EXPECT_NEAR(losses.steps[i] / serial.steps[i], 1, 1e-10) << "step " << i << " on " << grid.to_string();
        EXPECT_NEAR(losses.validation / serial.validation, 1, 1e-10) << "validation on " << grid.to_string();
      }
    }
}

TEST(UnetTraining, RefusesPicturesThatDoNotFit) {
  Context context(test_environment(), {.data = test_environment().ranks()});
  Unet network(context, config_of(DiffusionLoss::simple));
  const Diffusion simple({}), hybrid({.loss = DiffusionLoss::hybrid});
  const auto fitting = make_shapes(8, 10, 1), larger = make_shapes(16, 10, 1);
  EXPECT_USER_ERROR(UnetTask(context, network, simple, *larger, nullptr, {}),
                    "the network takes pictures of 8 x 8, got shapes: 10 pictures of 16 x 16");
  EXPECT_USER_ERROR(UnetTask(context, network, hybrid, *fitting, nullptr, {}), "the network gives 3 channels, this loss needs 6");
}

}  // namespace
}  // namespace axonn
