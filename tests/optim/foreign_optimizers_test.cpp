// Optimizers that are only files of these tests, beside plain code of their papers: each schedule,
// over data replicas and over Z.
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/coconet/update/update_program.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/overlap/execute/plan_executor.hpp"
#include "optim/optimizer_training.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

constexpr double kRate = 0.01, kDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8;
constexpr int kSteps = 5;

// All weights of a rank as one tensor of fp64, with the decay of each.
struct Plain {
  at::Tensor w, decay;
  std::map<std::string, at::Tensor> state = {};

  at::Tensor& at(const std::string& name, double first = 0) {
    at::Tensor& tensor = state[name];
    if (!tensor.defined()) tensor = at::full_like(w, first);
    return tensor;
  }
};
using Rule = std::function<void(Plain& p, const at::Tensor& g, int step)>;

void adan(Plain& p, const at::Tensor& g, int step) {
  constexpr double b1 = 0.02, b2 = 0.08, b3 = 0.01;
  const at::Tensor change = step == 1 ? at::zeros_like(g) : g - p.at("before");
  p.at("m").mul_(1 - b1).add_(b1 * g);
  p.at("v").mul_(1 - b2).add_(b2 * change);
  p.at("n").mul_(1 - b3).add_(b3 * (g + (1 - b2) * change).square());
  const at::Tensor rate = kRate / (p.at("n").sqrt() + kEpsilon);
  p.w = (p.w - rate * (p.at("m") + (1 - b2) * p.at("v"))) / (1 + kRate * p.decay);
  p.at("before") = g.clone();
}

void amsgrad(Plain& p, const at::Tensor& g, int step) {  // as torch.optim.AdamW(amsgrad=True)
  p.w = p.w * (1 - kRate * p.decay);
  p.at("m").lerp_(g, 1 - kBeta1);
  p.at("v").mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  p.at("most") = at::maximum(p.at("most"), p.at("v"));
  const at::Tensor size = p.at("most").sqrt() / std::sqrt(1 - std::pow(kBeta2, step)) + kEpsilon;
  p.w = p.w - kRate / (1 - std::pow(kBeta1, step)) * p.at("m") / size;
}

void centred_rmsprop(Plain& p, const at::Tensor& sum, int) {
  const at::Tensor g = sum + p.decay * p.w;
  p.at("squares", 1).mul_(0.9).addcmul_(g, g, 1 - 0.9);
  p.at("mean").lerp_(g, 1 - 0.9);
  p.w = p.w - kRate * g / ((p.at("squares") - p.at("mean").square()).sqrt() + kEpsilon);
}

// The authors' code: w lies between z and the mean, which is not stored.
void schedule_free(Plain& p, const at::Tensor& g, int step) {
  if (step == 1) p.at("z") = p.w.clone();
  p.at("v").mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const at::Tensor size = (p.at("v") / (1 - std::pow(kBeta2, step))).sqrt() + kEpsilon;
  const at::Tensor direction = g / size + p.decay * p.w;
  const double weight = 1.0 / step;
  p.w = p.w.lerp(p.at("z"), weight) + kRate * (kBeta1 * (1 - weight) - 1) * direction;
  p.at("z") = p.at("z") - kRate * direction;
}

void lion(Plain& p, const at::Tensor& g, int) {
  const at::Tensor direction = (0.9 * p.at("m") + (1 - 0.9) * g).sign();
  p.w = p.w - kRate * (direction + p.decay * p.w);
  p.at("m").lerp_(g, 1 - 0.99);
}

struct Foreign {
  const char* file;
  Rule rule;
};
const Foreign kForeign[] = {{"adan", adan},
                            {"amsgrad", amsgrad},
                            {"centred-rmsprop", centred_rmsprop},
                            {"schedule-free", schedule_free},
                            {"lion", lion}};

std::string path_of(const Foreign& optimizer) {
  return std::string(AXONN_TEST_PROGRAMS) + "/" + optimizer.file + ".program";
}

std::vector<GridShape> grids() {
  const int ranks = test_environment().ranks();
  if (ranks == 1) return {{}};
  if (ranks == 2) return {{.z = 2}, {.data = 2}};
  return {{.z = 2, .data = 2}};
}

double difference(const at::Tensor& got, const at::Tensor& need) {
  return ((got.to(at::kDouble) - need).abs() / need.abs().clamp_min(1)).max().item<double>();
}

// Matrices are decayed, and no vector is: by their shapes, whatever the network says.
at::Tensor decay_of(const Arena& arena) {
  at::Tensor decay = at::zeros({arena.size()}, at::kDouble);
  for (const ArenaSlot& slot : arena.slots())
    if (slot.spec.dims.size() >= 2) decay.narrow(0, slot.offset, slot.range.size()).fill_(kDecay);
  return decay;
}

// Five steps under one schedule. `expected` has the weights after each, from the first schedule on.
void expect_rule(const Foreign& optimizer, const GridShape& grid, at::ScalarType dtype,
                 std::optional<UpdateSchedule> schedule, std::vector<at::Tensor>& expected) {
  OptimizerSettings settings{.file = path_of(optimizer), .schedule = schedule, .learning_rate = kRate};
  settings.weight_decay = kDecay;
  if (!schedule) {  // auto
    test::OptimizerTraining measured(grid, dtype, {.learning_rate = kRate});
    const UpdateChoice choice =
        choose_update(measured.context(), measured.parameters(), settings, {.most_seconds = 0.05});
    settings.schedule = choice.schedule;
    settings.run = choice.run;
  }
  test::OptimizerTraining run(grid, dtype, settings);
  const Arena& arena = run.parameters().arena();
  const bool first = expected.empty();
  Plain plain{.w = arena.weights().to(at::kDouble).clone(), .decay = decay_of(arena)};
  for (int step = 1; step <= kSteps; ++step) {
    run.step(step, /*most_norm=*/0);
    (void)run.optimizer().state();  // waits for the weights
    if (first) {
      optimizer.rule(plain, run.summed_gradients().to(at::kDouble), step);
      expected.push_back(plain.w.clone());
    }
    EXPECT_LE(difference(arena.weights(), expected[static_cast<size_t>(step) - 1]), dtype == at::kDouble ? 1e-12 : 1e-5)
        << optimizer.file << " in " << c10::toString(dtype) << " with "
        << (schedule ? std::string(to_string(*schedule)) : "auto") << " on " << grid.to_string() << ", step " << step;
  }
}

TEST(ForeignOptimizers, FollowTheirPapersUnderEverySchedule) {
  for (const GridShape& grid : grids())
    for (const Foreign& optimizer : kForeign)
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        if (dtype == at::kFloat && grid == GridShape{.data = 2}) continue;  // as on four ranks
        std::vector<at::Tensor> expected;
        for (const std::optional<UpdateSchedule> schedule :
             {std::optional(UpdateSchedule::ar_opt), {UpdateSchedule::fuse}, {UpdateSchedule::rs_opt_ag}, {}})
          expect_rule(optimizer, grid, dtype, schedule, expected);
      }
}

// The program as it is written, run as any other program: two tensors, of which one is decayed.
TEST(ForeignOptimizers, FollowTheirPapersAsPlainPrograms) {
  constexpr int64_t kTensors = 2, kElements = 1500;
  using namespace coconet;
  for (const Foreign& optimizer : kForeign)
    for (const auto& [type, dtype] : {std::pair(ElementType::fp64, at::kDouble), {ElementType::fp32, at::kFloat}}) {
      const UpdateProgram program = load_update_program(path_of(optimizer)).with_types(type, type, type);
      PlanExecutor executor(SchedulePlan(program.program()), test_environment().world(),
                            {.sizes = {{"T", kTensors}, {"K", kElements}}});
      executor.clear();
      const at::Tensor w = at::arange(kTensors * kElements, at::kDouble).sin().to(dtype);
      executor.memory("w").copy_(w);
      for (const auto& [tensor, value] : program.starts())
        value ? executor.memory(tensor).fill_(*value) : executor.memory(tensor).copy_(w);
      executor.memory("decay").copy_(at::tensor({kDecay, 0.0}));
      executor.set("lr", kRate);
      Plain plain{.w = w.to(at::kDouble), .decay = at::tensor({kDecay, 0.0}, at::kDouble).repeat_interleave(kElements)};
      for (int step = 1; step <= kSteps; ++step) {
        const auto gradient = [&](int rank) {
          return ((at::arange(kTensors * kElements, at::kDouble) * (rank + 2) + step).cos() * 64).round() / 64;
        };
        at::Tensor sum = at::zeros_like(plain.w);
        for (int rank = 0; rank < test_environment().ranks(); ++rank) sum += gradient(rank);
        executor.memory(program.gradients()).copy_(gradient(test_environment().rank()));
        if (program.has_number(kUpdateNumber)) executor.set(std::string(kUpdateNumber), step);
        executor.run();
        optimizer.rule(plain, sum, step);
        EXPECT_LE(difference(executor.memory("w"), plain.w), type == ElementType::fp64 ? 1e-12 : 1e-5)
            << optimizer.file << " in " << c10::toString(dtype) << ", step " << step;
      }
    }
}

}  // namespace
}  // namespace axonn
