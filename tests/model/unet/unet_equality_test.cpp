// A UNet on any grid gives the numbers of one rank: output, loss and gradients in fp64.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/model/unet/model.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// Every kind of stage. From x = 4 or y = 4 on, groups of the norms lie on two ranks (the first
// level has two groups of 8 channels).
UnetConfig small(bool scale_shift, double dropout) {
  return {.shape = {.image = 4,
                    .base = 16,
                    .multipliers = {1, 2},
                    .blocks = 1,
                    .attention = {2},
                    .heads = 8,
                    .groups = 2,
                    .classes = scale_shift ? 5 : 0,
                    .scale_shift = scale_shift},
          .dropout = dropout};
}

// Zero-initialised convolutions would hide the layers before them.
void fill_all(const Context& context, const Parameters& parameters) {
  int64_t seed = 100;
  for (const ShardedParameter& parameter : parameters.list())
    fill(context, parameter, 0.2 * whole_tensor(++seed, parameter.spec().global_shape()));
}

struct Pass {
  at::Tensor output;  // output for this rank's images
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

// Forward and backward of 16 images. Weights, images, times and classes are the same on every grid.
Pass run(Context& context, const UnetConfig& config) {
  auto network = std::make_shared<Unet>(context, config);
  const Parameters parameters = context.materialize(*network, 1);
  fill_all(context, parameters);
  const int64_t size = config.shape.image;
  const at::Tensor images = my_rows(context, whole_tensor(1, {16, size, size, 3}));
  const at::Tensor times = my_rows(context, at::arange(16, at::kDouble) * 61),
                   classes = my_rows(context, at::arange(16, at::kLong) % 5);
  const int64_t rows = int64_t{context.shape().z} * context.shape().data;
  context.set_samples(
      {.seed = 3, .first = (int64_t{context.at().data} * context.shape().z + context.at().z) * 16 / rows});
  auto step = context.begin_step();
  Pass pass;
  pass.output = network->forward(images, times, config.shape.classes > 0 ? classes : at::Tensor());
  mean((pass.output - 1).square().sum(), 16.0 * static_cast<double>(size * size * 3), context).backward();
  step.finish();
  for (const ShardedParameter& parameter : parameters.list())
    pass.gradients.emplace_back(parameter.name(), parameter.gradient().clone());
  pass.output = pass.output.detach();
  return pass;
}

void expect_equals_one_rank(const UnetConfig& config) {
  Context one(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  const Pass serial = run(one, config);
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    const Pass pass = run(context, config);
    expect_near(pass.output, my_rows(context, serial.output), "output on " + grid.to_string());
    auto network = std::make_shared<Unet>(context, config);
    const Parameters parameters = context.materialize(*network, 1);
    for (size_t i = 0; i < pass.gradients.size(); ++i) {
      const auto& [name, gradient] = pass.gradients[i];
      const ShardedParameter& parameter = parameters[name];
      const auto found = std::ranges::find(serial.gradients, name, &std::pair<std::string, at::Tensor>::first);
      const at::Tensor whole = found->second.view(parameter.spec().global_shape());
      const at::Tensor expected = my_range(context, parameter.slot(), whole);
      if (expected.numel() == 0) continue;
      EXPECT_LE((gradient - expected).abs().max().item<double>(), kRelative * whole.abs().max().item<double>())
          << "gradient of " << name << " on " << grid.to_string();
    }
  }
}

TEST(UnetOnEveryGrid, EqualsOneRank) { expect_equals_one_rank(small(false, 0)); }

TEST(UnetOnEveryGrid, EqualsOneRankWithClassesScaleShiftAndDropout) { expect_equals_one_rank(small(true, 0.2)); }

// A recomputed stage sums the gradient of its input first, and only then that of the skip: not the
// same bits.
TEST(UnetOnEveryGrid, HasTheSameGradientsWithCheckpointedBlocks) {
  UnetConfig config = small(true, 0.2);
  for (const GridShape& grid : every_grid()) {
    config.checkpoint_every = 0;
    Context context = context_on(grid);
    const Pass plain = run(context, config);
    for (const int64_t every : {1, 3}) {
      config.checkpoint_every = every;
      Context again = context_on(grid);
      const Pass pass = run(again, config);
      EXPECT_TRUE(at::equal(pass.output, plain.output)) << grid.to_string() << ", every " << every;
      for (size_t i = 0; i < pass.gradients.size(); ++i)
        expect_near(
            pass.gradients[i].second, plain.gradients[i].second,
            "gradient of " + pass.gradients[i].first + " on " + grid.to_string() + ", every " + std::to_string(every));
    }
  }
}

TEST(UnetErrors, NameWhatDoesNotFitTheGrid) {
  Context context = Context::plan({.x = 3});
  EXPECT_USER_ERROR(Unet(context, small(false, 0)),
                    "channels must divide by x, got 16 channels in first and x = 3 (grid 3x1x1x1)");
  Context wide = Context::plan({.y = 16});
  EXPECT_USER_ERROR(Unet(wide, small(false, 0)), "heads must divide by y");
}

}  // namespace
}  // namespace axonn
