// The same images on every grid, and guidance that follows its formula.
#include "axonn/tasks/images/image_sampler.hpp"

#include <span>
#include <tuple>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

UnetConfig config_of(DiffusionLoss loss, int64_t classes) {
  return {.shape = {.image = 4,
                    .base = 8,
                    .multipliers = {1, 2},
                    .blocks = 1,
                    .attention = {2},
                    .heads = 8,
                    .groups = 2,
                    .classes = classes,
                    .learned_variance = loss == DiffusionLoss::hybrid},
          .dropout = 0.1};
}

// A network like a trained one: no weight is zero.
struct Drawn {
  Drawn(Context& on, DiffusionLoss loss, int64_t classes)
      : context(on), network(on, config_of(loss, classes)), parameters(on.materialize(network, 1)) {
    const Arena& arena = parameters.arena();
    const at::NoGradGuard no_grad;
    for (const ArenaSlot& slot : arena.slots())
      if (slot.range.size() > 0)
        arena.master()
            .narrow(0, slot.offset, slot.range.size())
            .add_(initial_values(slot.name, Initial::normal(0.1), slot.spec, on.shape(), on.at(), slot.range, 7,
                                 arena.master().scalar_type()));
    parameters.arena().round_master();
    parameters.schedule().weights_written();
  }
  SampledImages sample(const Diffusion& diffusion, const ImageSamplingOptions& options) {
    return sample_images(context, network, diffusion, options);
  }

  Context& context;
  Unet network;
  Parameters parameters;
};

struct Case {
  DiffusionLoss loss;
  int64_t classes;
  ImageSamplingOptions options;
};

const std::vector<Case> kCases = {
    {DiffusionLoss::simple, 3, {.count = 7, .steps = 4, .guidance = 2, .rows = 2, .trajectory = 3}},
    {DiffusionLoss::hybrid,
     3,
     {.count = 5, .steps = 3, .method = SamplingMethod::ddpm, .guidance = 3, .only_class = 2, .rows = 1}},
    {DiffusionLoss::simple, 0, {.count = 9, .steps = 3, .method = SamplingMethod::ddpm, .rows = 16, .trajectory = 3}},
};

// Predicts v: the x_0 from an untrained prediction of the noise would be clipped everywhere.
Diffusion diffusion_of(DiffusionLoss loss) {
  return Diffusion({.times = 40, .schedule = NoiseSchedule::cosine, .target = DiffusionTarget::v, .loss = loss});
}

double distance(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

Context one_rank(at::ScalarType dtype) {
  return Context(test_environment(), {}, {.dtype = dtype, .job_ranks = {test_environment().rank()}});
}

TEST(SampledImages, AreTheSameOnEveryGrid) {
  for (const auto& [dtype, tolerance] : {std::pair(at::kDouble, 1e-10), std::pair(at::kFloat, 1.0 / 255)})
    for (const auto& [loss, classes, options] : std::span(kCases).first(dtype == at::kDouble ? kCases.size() : 1)) {
      const Diffusion diffusion = diffusion_of(loss);
      Context one = one_rank(dtype);
      const SampledImages serial = Drawn(one, loss, classes).sample(diffusion, options);
      ASSERT_EQ(serial.images.sizes(), (std::vector<int64_t>{options.count, 4, 4, 3}));
      EXPECT_EQ(serial.images.scalar_type(), dtype);
      EXPECT_LE(serial.images.abs().max().item<double>(), 1);
      EXPECT_LE((serial.images.abs() == 1).to(at::kDouble).mean().item<double>(), 0.5);  // clipping hides little
      for (const GridShape& grid : factorisations(test_environment().ranks())) {
        Context context(test_environment(), grid, {.dtype = dtype});
        const SampledImages here = Drawn(context, loss, classes).sample(diffusion, options);
        EXPECT_LE(distance(here.images, serial.images), tolerance) << grid.to_string();
        ASSERT_EQ(here.trajectory.defined(), options.trajectory > 0);
        if (options.trajectory == 0) continue;
        ASSERT_EQ(here.trajectory.sizes(), (std::vector<int64_t>{options.count, options.trajectory, 4, 4, 3}));
        EXPECT_LE(distance(here.trajectory, serial.trajectory), tolerance * 10) << grid.to_string();
        EXPECT_TRUE(at::equal(here.trajectory.select(1, -1), here.images));
      }
    }
}

TEST(SampledImages, DoNotDependOnHowManyAreDrawnAtOnce) {
  Context one = one_rank(at::kDouble);
  const Diffusion diffusion = diffusion_of(DiffusionLoss::simple);
  Drawn drawn(one, DiffusionLoss::simple, 3);
  for (const SamplingMethod method : {SamplingMethod::ddim, SamplingMethod::ddpm}) {
    const at::Tensor many = drawn.sample(diffusion, {.count = 6, .steps = 3, .method = method}).images;
    EXPECT_LE(distance(drawn.sample(diffusion, {.count = 4, .steps = 3, .method = method, .rows = 3}).images,
                       many.narrow(0, 0, 4)),
              1e-12);
    EXPECT_GT(distance(many[0], many[3]), 0.1);  // the same class, with other noise
    EXPECT_GT(distance(drawn.sample(diffusion, {.count = 6, .steps = 3, .method = method, .seed = 2}).images, many),
              0.1);
  }
}

TEST(SampledImages, ComeFromTheStepsOfTheDiffusion) {
  Context one = one_rank(at::kDouble);
  const Diffusion diffusion = diffusion_of(DiffusionLoss::simple);
  Drawn drawn(one, DiffusionLoss::simple, 3);
  const std::vector<int64_t> sizes = {2, 4, 4, 3};
  const auto by_hand = [&](SamplingMethod method) {
    const at::NoGradGuard no_grad;
    drawn.network.eval();
    at::Tensor image = sample_noise(5, "sampling", 0, sizes);
    for (const auto& [step, time, before] : {std::tuple(0, 39, 0), {1, 0, -1}}) {
      const at::Tensor output =
          drawn.network.forward(image, at::full({2}, time, at::kLong), at::tensor({0, 1}, at::kLong));
      const at::Tensor noise = sample_noise(5, "sampling step " + std::to_string(step), 0, sizes);
      image = method == SamplingMethod::ddim ? diffusion.ddim_step(output, image, time, before)
                                             : diffusion.ddpm_step(output, image, time, before, noise);
    }
    return image;
  };
  for (const SamplingMethod method : {SamplingMethod::ddim, SamplingMethod::ddpm})
    EXPECT_LE(distance(drawn.sample(diffusion, {.count = 2, .steps = 2, .method = method, .seed = 5}).images,
                       by_hand(method)),
              1e-12);
  EXPECT_GT(distance(by_hand(SamplingMethod::ddim), by_hand(SamplingMethod::ddpm)), 0.1);
}

// One step of DDIM on a network whose output is known.
TEST(Guidance, GoesFromTheUnconditionalThroughTheConditional) {
  Context one = one_rank(at::kDouble);
  const Diffusion diffusion = diffusion_of(DiffusionLoss::hybrid);
  Drawn drawn(one, DiffusionLoss::hybrid, 3);
  const at::Tensor noise = sample_noise(1, "sampling", 0, {2, 4, 4, 3}), time = at::full({2}, 39, at::kLong);
  drawn.network.eval();
  const at::NoGradGuard no_grad;
  const at::Tensor with = drawn.network.forward(noise, time, at::tensor({0, 1}, at::kLong)),
                   without = drawn.network.forward(noise, time, at::full({2}, Unet::kNoClass, at::kLong));
  EXPECT_GT(distance(with, without), 1e-2);
  const auto expected = [&](double guidance) {
    return diffusion.ddim_step(without + guidance * (with - without), noise, 39, -1);
  };
  for (const double guidance : {0.0, 1.0, 2.5})
    EXPECT_LE(
        distance(drawn.sample(diffusion, {.count = 2, .steps = 1, .guidance = guidance}).images, expected(guidance)),
        1e-10);
  EXPECT_FALSE(drawn.network.is_training());
  drawn.network.train();
  drawn.sample(diffusion, {.count = 1, .steps = 1});
  EXPECT_TRUE(drawn.network.is_training());
}

TEST(SampledImages, RefuseWhatMeansNothing) {
  Context one = one_rank(at::kFloat);
  const Diffusion simple = diffusion_of(DiffusionLoss::simple);
  Drawn classless(one, DiffusionLoss::simple, 0), classed(one, DiffusionLoss::simple, 3);
  EXPECT_USER_ERROR(classless.sample(simple, {.guidance = 2}),
                    "guidance needs a network with classes, got guidance 2 and none");
  EXPECT_USER_ERROR(classed.sample(simple, {.guidance = -1}), "guidance must be finite and not negative, got -1");
  EXPECT_USER_ERROR(classed.sample(simple, {.only_class = 3}), "the network has 3 classes, numbered from 0");
  EXPECT_USER_ERROR(classless.sample(simple, {.only_class = 0}), "the network has 0 classes");
  EXPECT_USER_ERROR(classed.sample(simple, {.count = 0}), "count must be at least 1, got 0");
  EXPECT_USER_ERROR(classed.sample(simple, {.rows = 0}), "rows must be at least 1, got 0");
  EXPECT_USER_ERROR(classed.sample(simple, {.steps = 41}),
                    "sampling steps must be from 1 to the 40 times of the diffusion, got 41");
  EXPECT_USER_ERROR(classed.sample(simple, {.steps = 4, .trajectory = 5}),
                    "a trajectory of 4 steps has from 0 to so many moments, got 5");
  EXPECT_USER_ERROR(classed.sample(diffusion_of(DiffusionLoss::hybrid), {.steps = 4}),
                    "the network gives 3 channels, this loss needs 6");
}

}  // namespace
}  // namespace axonn
