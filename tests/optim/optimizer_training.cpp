#include "optim/optimizer_training.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/train/batch_plan.hpp"
#include "model/loss_of_rows.hpp"
#include "support/rank_test.hpp"

namespace axonn::test {
namespace {

constexpr int64_t kBatch = 24;

}  // namespace

OptimizerTraining::OptimizerTraining(const GridShape& grid, at::ScalarType dtype, const OptimizerSettings& settings)
    : context_(test_environment(), grid, {.dtype = dtype}),
      model_(context_, {.shape = {.layers = 2, .hidden = 48, .heads = 24, .sequence = 3, .vocabulary = 61}}),
      parameters_(context_.materialize(model_, 7)),
      optimizer_(make_optimizer(context_, parameters_, settings)),
      scale_(dtype == at::kHalf ? 1024 : 1) {}

void OptimizerTraining::step(int64_t number, double most_norm) {
  const int64_t rows = kBatch / context_.shape().size(kRowAxes);
  const BatchPlan plan = plan_batch(kBatch, rows % 2 == 0 ? rows / 2 : rows, context_.shape(), context_.at());
  if (most_norm == 0) optimizer_->prepare();
  auto work = context_.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
  for (int64_t j = 0; j < plan.micro_batches; ++j) {
    const at::Tensor loss = loss_of_rows(context_, model_, plan.first_sample(number, j), plan.micro_batch, kBatch);
    losses_.push_back(loss.item<double>());
    (loss * scale_).backward();
  }
  work.finish();
  const UpdateReport report = optimizer_->step({.max_norm = most_norm, .gradient_scale = scale_});
  EXPECT_TRUE(report.applied);
  norms_.push_back(report.gradient_norm);
}

std::map<std::string, at::Tensor> OptimizerTraining::own_parts() const {
  std::map<std::string, at::Tensor> parts;
  for (const OptimizerState& state : optimizer_->state()) {
    std::vector<at::Tensor> pieces;
    for (const OwnedRegion& region : parameters_.arena().regions())
      for (const Range& range : region.owners.ranges(region.member, region.range))
        pieces.push_back(state.tensor.narrow(0, state.own ? region.own_place(range.begin) : range.begin, range.size()));
    parts[state.name] = pieces.empty() ? at::Tensor() : at::cat(pieces);
  }
  parts["shards"] = parameters_.arena().weights().clone();
  return parts;
}

}  // namespace axonn::test
