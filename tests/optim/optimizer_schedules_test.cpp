// Every optimizer under every schedule: the same bits, and state divided among the replicas.
#include <map>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "train/replicas.hpp"
#include "optim/optimizer_training.hpp"
#include "support/every_grid.hpp"

namespace axonn {
namespace {

using test::OptimizerTraining;

struct Case {
  OptimizerSettings settings;
  at::ScalarType dtype;

  std::string name() const {
    const std::string optimizer = settings.file.empty() ? std::string(to_string(settings.kind)) : settings.file;
    return optimizer + " in " + c10::toString(dtype);
  }
};

// Every element type and every optimizer.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf}) all.push_back({{.learning_rate = 1e-2}, dtype});
  for (const auto& kind : Names<OptimizerKind>::all)
    all.push_back({{.kind = kind.value, .learning_rate = 1e-2}, at::kBFloat16});
  all.push_back({{.kind = OptimizerKind::lamb, .learning_rate = 1e-2}, at::kFloat});
  all.push_back({{.file = AXONN_LION, .learning_rate = 1e-3}, at::kBFloat16});
  return all;
}

void expect_the_same_bits(const GridShape& grid, const Case& tried) {
  std::map<std::string, at::Tensor> expected;
  std::vector<double> norms;
  for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
    OptimizerSettings settings = tried.settings;
    settings.schedule = schedule;
    settings.ema = 0.3;
    OptimizerTraining run(grid, tried.dtype, settings);
    for (int64_t i = 0; i < 3; ++i) run.step(i);
    const auto parts = run.own_parts();
    check_replicas(run.context(), run.tensors(), 3);
    const std::string what = tried.name() + " with " + std::string(name) + " on " + grid.to_string();
    if (expected.empty()) {
      expected = parts;
      norms = run.norms();
    }
    EXPECT_EQ(run.norms(), norms) << what;
    ASSERT_EQ(parts.size(), expected.size()) << what;
    for (const auto& [tensor, part] : parts)
      EXPECT_TRUE(!part.defined() || at::equal(part, expected.at(tensor))) << what << ": " << tensor;
  }
}

// On more than four ranks a few of all: fp32 where weights have replicas, and another case in turn.
TEST(OptimizerSchedules, GiveTheSameBits) {
  const bool all = test_environment().ranks() <= 4 || tests_everything();
  const std::vector<Case> every = cases();
  size_t turn = 0;
  for (const GridShape& grid : test::every_grid()) {
    const size_t mine = turn++ % every.size();
    for (size_t i = 0; i < every.size(); ++i)
      if (all || i == mine || (grid.data > 1 && every[i].dtype == at::kFloat)) expect_the_same_bits(grid, every[i]);
  }
}

TEST(OptimizerSchedules, DivideTheState) {
  for (const GridShape& grid : test::every_grid()) {
    OptimizerTraining run(grid, at::kBFloat16, {.schedule = UpdateSchedule::fuse, .ema = 0.3});
    int64_t own = 0;
    for (const OwnedRegion& region : run.parameters().arena().regions()) {
      own += region.own_count(region.range);
      EXPECT_LE(region.own_count(region.range) - region.range.size() / region.owners.members(), BlockOwners::kBlock);
    }
    for (const OptimizerState& state : run.optimizer().state())
      EXPECT_EQ(state.tensor.numel(), own) << state.name << " on " << grid.to_string();
    EXPECT_EQ(run.optimizer().state().size(), 4U);  // master weights, two moments, the average
  }
}

}  // namespace
}  // namespace axonn
