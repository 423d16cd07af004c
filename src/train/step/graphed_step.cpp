#include "train/step/graphed_step.hpp"

#include <utility>
#include <vector>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "kernels/gpu/placed.hpp"

namespace axonn {
namespace {

// On `device`, in memory of their own.
std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors, c10::Device device) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors)
    put(tensor, result.emplace_back(at::empty_like(tensor, tensor.options().device(device))));
  return result;
}

}  // namespace

GraphedStep::GraphedStep(const TrainedNetwork& network, const BatchPlan& plan, Settings settings,
                         std::unique_ptr<LaunchGraph> graph)
    : network_(network), plan_(plan), settings_(settings), graph_(std::move(graph)) {}

const GraphedStep::Numbers& GraphedStep::take(int64_t step, double learning_rate) {
  put_inputs(step);
  network_.optimizer.stage(learning_rate);
  if (!std::exchange(recorded_, true)) graph_->record([this] { work(); });
  graph_->launch();
  return numbers_;
}

// The graph reads the tensors of its first step: later inputs are put into their places.
void GraphedStep::put_inputs(int64_t step) {
  const c10::Device device = network_.context.options().device;
  const at::Tensor first = at::full({}, plan_.first_sample(step, 0), at::kLong);
  for (int64_t j = 0; j < plan_.micro_batches; ++j) {
    const std::vector<at::Tensor> inputs = network_.task.inputs(plan_.first_sample(step, j), plan_.micro_batch);
    if (recorded_)
      for (size_t i = 0; i < inputs.size(); ++i) put(inputs[i], samples_.inputs[static_cast<size_t>(j)][i]);
    else
      samples_.inputs.push_back(copies(inputs, device));
    network_.task.prefetch(plan_.first_sample(step + 1, j), plan_.micro_batch);
  }
  if (!recorded_) samples_.origin = at::empty_like(first, first.options().device(device));
  put(first, samples_.origin);
}

void GraphedStep::work() {
  numbers_.losses =
      run_passes(network_.context, network_.task, plan_, /*step=*/0, {.seed = settings_.seed, .staged = &samples_});
  numbers_.norm =
      network_.optimizer.step({.max_norm = settings_.clip, .loss = numbers_.losses.means.sum(), .staged = true}).norm;
}

}  // namespace axonn
