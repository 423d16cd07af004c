// Gradients summed by two-level programs train the same network as gradients summed by rings.
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "axonn/optim/make_optimizer.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "axonn/train/batch_plan.hpp"
#include "model/loss_of_rows.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

constexpr const char* kAllOf8 = "reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7";
constexpr const char* kAllOf8InPieces = "reduce-scatter:0-7/all-gather:0+4,1+5,2+6,3+7/all-gather:0-3,4-7";
constexpr const char* kEverySecond =
    "reduce-scatter:0+2,4+6,1+3,5+7/all-reduce:0+4,2+6,1+5,3+7/all-gather:0+2,4+6,1+3,5+7";
// First among the members of a node, then between the nodes: the parts that ranks end with are not
// in rank order.
constexpr const char* kScatterOver8 = "reduce-scatter:0-3,4-7/reduce-scatter:0+4,1+5,2+6,3+7";
constexpr const char* kScatterOver8FarFirst = "reduce-scatter:0+4,1+5,2+6,3+7/reduce-scatter:0-3,4-7";
constexpr const char* kScatterEverySecond = "reduce-scatter:0+2,4+6,1+3,5+7/reduce-scatter:0+4,2+6,1+5,3+7";
constexpr const char* kScatterHalves = "reduce-scatter:0+1,2+3,4+5,6+7/reduce-scatter:0+2,1+3,4+6,5+7";

struct Case {
  GridShape grid;
  std::string programs;
  bool scatters = false;  // one program reduce-scatters over Z
};

std::vector<Case> cases() {
  return {{{.data = 8}, kAllOf8},
          {{.data = 8}, kAllOf8InPieces},
          {{.x = 2, .data = 4}, kEverySecond},
          {{.z = 2, .data = 4}, kEverySecond},  // rings for parameters replicated over Z
          {{.z = 2, .data = 4}, std::string(kEverySecond) + ";" + kAllOf8},
          {{.z = 8}, kAllOf8},
          {{.z = 8}, kScatterOver8, true},
          {{.z = 8}, std::string(kScatterOver8FarFirst) + ";" + kAllOf8, true},
          {{.x = 2, .z = 4}, kScatterEverySecond, true},
          {{.z = 4, .data = 2}, std::string(kScatterHalves) + ";" + kAllOf8, true}};
}

class Training {
 public:
  Training(const GridShape& grid, std::string_view programs, at::ScalarType dtype, OverlapPolicy policy)
      : context_(test_environment(), grid,
                 {.dtype = dtype, .overlap = policy, .gradient_programs = parse_gradient_programs(programs)}),
        model_(context_, {.shape = {.layers = 2, .hidden = 16, .heads = 2, .sequence = 3, .vocabulary = 21}}),
        parameters_(context_.materialize(model_, 7)),
        optimizer_(make_optimizer(context_, parameters_,
                                  {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .weight_decay = 0})) {}

  const Training& train(int steps) {
    const BatchPlan plan = plan_batch(kBatch, kBatch / 2 / (int64_t{context_.shape().z} * context_.shape().data),
                                      context_.shape(), context_.at());
    for (int i = 0; i < steps; ++i) {
      auto work = context_.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
      for (int64_t j = 0; j < plan.micro_batches; ++j) {
        const at::Tensor loss = test::loss_of_rows(context_, model_, plan.first_sample(i, j), plan.micro_batch, kBatch);
        loss.backward();
        losses_.push_back(loss.detach());
      }
      work.finish();
      optimizer_->step();
    }
    return *this;
  }

  at::Tensor losses() const { return at::stack(losses_); }
  const at::Tensor& weights() const { return parameters_.arena().master(); }

  // Replicated parameters are equal on all ranks, bit for bit.
  bool replicas_agree() {
    const Arena& arena = parameters_.arena();
    return agree(arena.over_z(), Axis::data) && agree(arena.replicated(), {Axis::z, Axis::data});
  }
  int64_t rings_scattering_over_z() {
    return context_.communicators()[Axis::z].counters().collectives - context_.scheduler().gather_counters().gathers;
  }
  int64_t rings_over_data() { return context_.communicators()[Axis::data].counters().collectives; }
  int64_t allocations() {
    return context_.scheduler().pool().allocations() + test_environment().engine_counters().allocations;
  }

 private:
  static constexpr int64_t kBatch = 48;

  bool agree(Range range, AxisSet axes) {
    if (range.size() == 0) return true;
    const at::Tensor mine = weights().narrow(0, range.begin, range.size()), least = mine.clone(),
                     greatest = mine.clone();
    context_.communicators()[axes].all_reduce(least, ReduceOp::min).wait();
    context_.communicators()[axes].all_reduce(greatest, ReduceOp::max).wait();
    return at::equal(least, greatest);
  }

  Context context_;
  Decoder model_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<at::Tensor> losses_;
};

double difference(const at::Tensor& one, const at::Tensor& other) {
  return ((one - other).abs().max() / other.abs().max()).item<double>();
}

TEST(GradientPrograms, TrainTheNetworkOfTheRings) {
  for (const Case& c : cases()) {
    const std::string what = c.grid.to_string() + " " + c.programs;
    Training ring(c.grid, "ring", at::kDouble, {}), program(c.grid, c.programs, at::kDouble, {});
    ring.train(5), program.train(5);
    EXPECT_EQ(ring.rings_over_data() > 0, c.grid.data > 1) << what;
    EXPECT_EQ(program.rings_over_data() > 0, c.grid.data > 1 && c.scatters) << what;
    EXPECT_EQ(ring.rings_scattering_over_z() > 0, c.grid.z > 1) << what;
    EXPECT_EQ(program.rings_scattering_over_z() > 0, c.grid.z > 1 && !c.scatters) << what;
    EXPECT_LE(difference(program.losses(), ring.losses()), 1e-12) << what;
    EXPECT_LE(difference(program.weights(), ring.weights()), 1e-12) << what;
    EXPECT_TRUE(program.replicas_agree()) << what;
  }
}

TEST(GradientPrograms, GiveTheSameBitsUnderEveryOverlapAndInEveryRun) {
  const OverlapPolicy blocking{
      .switches = {.all_reduce = false, .reduce_scatter = false, .all_gather = false, .cache = false},
      .bucket_bytes = 1 << 12},
      overlapped{.bucket_bytes = 1 << 12};
  for (const Case& c : cases()) {
    Training one(c.grid, c.programs, at::kBFloat16, blocking), other(c.grid, c.programs, at::kBFloat16, overlapped);
    one.train(4), other.train(4);
    EXPECT_TRUE(at::equal(one.weights(), other.weights())) << c.grid.to_string() << " " << c.programs;
    EXPECT_TRUE(other.replicas_agree()) << c.grid.to_string() << " " << c.programs;
  }
}

TEST(GradientPrograms, AllocateNothingAfterTheFirstSteps) {
  Training run({.z = 2, .data = 4}, std::string(kEverySecond) + ";" + kAllOf8, at::kFloat, {.bucket_bytes = 1 << 12});
  run.train(3);
  const int64_t before = run.allocations();
  run.train(5);
  EXPECT_EQ(run.allocations(), before);
}

}  // namespace
}  // namespace axonn
