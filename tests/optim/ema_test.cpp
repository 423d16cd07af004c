// The average of the weights: its formula, equality on every grid, and resuming on another grid.
#include <map>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/loss.hpp"
#include "axonn/tasks/images/image_task.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
#include "axonn/train/trainer.hpp"
#include "support/rank_test.hpp"
#include "support/scratch.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kBatch = 8;

// A small network in training, with all the state that a resumed run must restore.
struct Training {
  Training(Context on, double ema, int64_t steps = 12)
      : context(std::move(on)),
        network(context,
                {.shape =
                     {.image = 4, .base = 8, .multipliers = {1, 2}, .blocks = 1, .heads = 4, .groups = 2, .classes = 4},
                 .dropout = 0.1}),
        parameters(context.materialize(network, 1)),
        source(make_shapes(4, 50, 1)),
        held_out(make_shapes(4, 9, 2)),
        task(context, network, diffusion, *source, held_out.get(),
             {.class_dropout = 0.25, .importance = true, .validation_images = 9}) {
    config.steps = steps;
    config.batch = kBatch;
    config.warmup = 0;
    config.optimizer.learning_rate = config.learning_rate_end = 1e-2;
    config.optimizer.ema = ema;
    config.log_every = 0;
    optimizer = make_optimizer(context, parameters, config);
  }

  void step(int64_t number) {
    const GridShape& grid = context.shape();
    const int64_t mine = int64_t{context.at().data} * grid.z + context.at().z,
                  rows = kBatch / (int64_t{grid.z} * grid.data);
    auto running = context.begin_step();
    const int64_t first = number * kBatch + mine * rows;
    context.set_samples({.seed = 1, .first = first});
    mean(task.loss_sum(task.inputs(first, rows)), static_cast<double>(kBatch), context).backward();
    running.finish();
    optimizer->step({.max_norm = 1});
    task.after_step();
  }
  std::map<std::string, at::Tensor> tensors() const {
    std::map<std::string, at::Tensor> all;
    for (const CheckpointTensor& tensor : checkpoint_tensors(parameters, optimizer.get(), &task))
      all[tensor.name] = tensor.shard;
    return all;
  }
  at::Tensor average() const {
    for (const OptimizerState& state : optimizer->state())
      if (state.name == "ema") return state.tensor;
    return {};
  }
  void load(const CheckpointReader& reader) {
    reader.load(context.shape(), context.at(), checkpoint_tensors(parameters, optimizer.get(), &task));
    optimizer->state_changed();
    optimizer->set_steps_taken(reader.state().step);
  }

  Context context;
  Unet network;
  Parameters parameters;
  const Diffusion diffusion{{.times = 2, .schedule = NoiseSchedule::cosine}};
  std::unique_ptr<ImageSource> source, held_out;
  ImageTask task;
  TrainConfig config;
  std::unique_ptr<Optimizer> optimizer;
};

Context one_rank(at::ScalarType dtype) {
  return Context(test_environment(), {}, {.dtype = dtype, .job_ranks = {test_environment().rank()}});
}

TEST(Ema, FollowsItsFormulaAfterEveryUpdate) {
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    Training run(Context(test_environment(), {.z = test_environment().ranks()}, {.dtype = dtype}), 0.3);
    const at::Tensor& master = run.parameters.arena().master();
    at::Tensor expected = master.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    for (const double decay : {2.0 / 11, 3.0 / 12, 0.3, 0.3}) {
      run.step(run.optimizer->steps_taken());
      expected = decay * expected + (1 - decay) * master.to(at::kDouble);
      EXPECT_LE((run.average() - expected).abs().max().item<double>(), dtype == at::kDouble ? 1e-15 : 1e-6);
    }
    EXPECT_GT((run.average() - master).abs().max().item<double>(), 1e-4);
  }
}

TEST(Ema, StandsInForTheWeightsAndGivesThemBack) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    Training run(Context(test_environment(), {.z = test_environment().ranks()}, {.dtype = dtype}), 0.5);
    for (int64_t i = 0; i < 3; ++i) run.step(i);
    const Arena& arena = run.parameters.arena();
    const at::Tensor master = arena.master().clone(), weights = arena.weights().clone(),
                     average = run.average().clone();
    const double with_weights = *run.task.validate();
    double with_average = 0;
    try {
      const auto averaged = run.optimizer->use_average();
      EXPECT_TRUE(at::equal(arena.master(), average));
      EXPECT_TRUE(at::equal(arena.weights(), average.to(dtype)));
      with_average = *run.task.validate();
      throw 1;
    } catch (int) {
    }
    EXPECT_TRUE(at::equal(arena.master(), master));
    EXPECT_TRUE(at::equal(arena.weights(), weights));
    EXPECT_TRUE(at::equal(run.average(), average));
    EXPECT_NE(with_average, with_weights);
    EXPECT_EQ(*run.task.validate(), with_weights);
  }
}

// Each grid trains six steps and saves. One rank reads this and continues. Everything equals a run
// on one rank that never stopped.
TEST(Ema, IsTheSameOnEveryGridAndGoesOnOnAnother) {
  constexpr int64_t kBefore = 6, kAfter = 8;
  Training whole(one_rank(at::kDouble), 0.5);
  for (int64_t i = 0; i < kBefore; ++i) whole.step(i);
  const at::Tensor average = whole.average().clone(), history = whole.task.state()[0].shard.clone();
  EXPECT_FALSE(history.narrow(0, 0, 20).isnan().any().item<bool>());  // importance is active
  for (int64_t i = kBefore; i < kAfter; ++i) whole.step(i);
  for (const GridShape& grid : factorisations(test_environment().ranks())) {
    Training run(Context(test_environment(), grid, {.dtype = at::kDouble}), 0.5);
    for (int64_t i = 0; i < kBefore; ++i) run.step(i);
    const SharedDirectory shared;
    const CheckpointWriter writer(run.context.grid(), run.context.communicators().on_cpu(AxisSet::all()),
                                  {.directory = shared.path()});
    writer.save({.run = "test", .step = kBefore}, checkpoint_tensors(run.parameters, run.optimizer.get(), &run.task));
    Training resumed(one_rank(at::kDouble), 0.5), used(one_rank(at::kDouble), 0);
    {
      const CheckpointReader reader(shared.path());
      resumed.load(reader);
      reader.load({}, {}, weights_to_use(used.parameters, reader));
    }
    EXPECT_LE((resumed.average() - average).abs().max().item<double>(), 1e-12) << grid.to_string();
    EXPECT_TRUE(at::equal(used.parameters.arena().master(), resumed.average()));
    EXPECT_TRUE(at::allclose(resumed.task.state()[0].shard.narrow(0, 0, 20), history.narrow(0, 0, 20), 1e-9, 0));
    for (int64_t i = kBefore; i < kAfter; ++i) resumed.step(i);
    EXPECT_LE((resumed.average() - whole.average()).abs().max().item<double>(), 1e-11) << grid.to_string();
  }
}

TEST(Ema, IsNotKeptUnlessAskedFor) {
  const Training without(one_rank(at::kFloat), 0);
  EXPECT_FALSE(without.average().defined());
  EXPECT_FALSE(without.tensors().contains("ema/first.weight"));
  EXPECT_TRUE(Training(one_rank(at::kFloat), 0.9).tensors().contains("ema/first.weight"));
  EXPECT_USER_ERROR(check_optimizer({.ema = 1}), "ema must be in [0, 1), got 1");
}

// The whole loop, stopped and resumed: the same bits.
TEST(TrainingWithAnAverage, ResumesWhereItStopped) {
  if (test_environment().ranks() > 1) GTEST_SKIP() << "one rank shows it";
  const Scratch scratch;
  const auto train_in = [&](Training& run, const char* name, int64_t first_step, int64_t stop_after) {
    run.config.out = (scratch / name).string();
    int64_t left = stop_after;
    return train({test_environment(), run.context, run.parameters, *run.optimizer, run.task}, run.config,
                 {.run = name, .title = "unet", .configuration = "{}", .tokenizer = "null"}, first_step,
                 [&] { return --left == 0; });
  };
  Training whole(one_rank(at::kFloat), 0.5, 9), stopped(one_rank(at::kFloat), 0.5, 9),
      resumed(one_rank(at::kFloat), 0.5, 9), used(one_rank(at::kFloat), 0);
  const TrainResult result = train_in(whole, "whole", 0, -1);
  EXPECT_EQ(train_in(stopped, "stopped", 0, 6).steps, 6);
  resumed.load(CheckpointReader(scratch / "stopped"));
  EXPECT_EQ(train_in(resumed, "stopped", 6, -1).steps, 9);
  const auto expected = whole.tensors(), found = resumed.tensors();
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(at::allclose(found.at(name), tensor, 0, 0, /*equal_nan=*/true)) << name;

  const CheckpointReader reader(scratch / "whole");
  reader.load({}, {}, weights_to_use(used.parameters, reader));
  EXPECT_EQ(*used.task.validate(), *result.validation_loss);  // loss of the average
  EXPECT_NE(*whole.task.validate(), *result.validation_loss);
  EXPECT_NE(read(scratch / "whole" / "metrics.jsonl").find("\"images_per_second\":"), std::string::npos);
}

}  // namespace
}  // namespace axonn
