#include "axonn/train/passes.hpp"

#include <vector>

#include <ATen/ops/stack.h>

#include "axonn/layers/loss.hpp"
#include "kernels/gpu/placed.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

void timed(const PassOptions& options, const char* pass, const auto& work) {
  const auto begin = Clock::now();
  work();
  if (options.on_pass) options.on_pass(pass, begin, Clock::now());
}

}  // namespace

std::vector<at::Tensor> placed_inputs(const Context& context, TrainTask& task, int64_t first, int64_t count) {
  std::vector<at::Tensor> inputs = task.inputs(first, count);
  for (at::Tensor& tensor : inputs) tensor = placed(tensor, context.options().device);
  return inputs;
}

PassLosses run_passes(Context& context, TrainTask& task, const BatchPlan& plan, int64_t step,
                      const PassOptions& options) {
  const auto count = static_cast<double>(plan.batch * task.tokens_per_sample());
  std::vector<at::Tensor> means, sums;
  auto work = context.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
  const auto inputs = [&](int64_t j) {
    if (options.staged != nullptr) return options.staged->inputs[static_cast<size_t>(j)];
    const bool last = j + 1 == plan.micro_batches;
    task.prefetch(last ? plan.first_sample(step + 1, 0) : plan.first_sample(step, j + 1), plan.micro_batch);
    return placed_inputs(context, task, plan.first_sample(step, j), plan.micro_batch);
  };
  for (int64_t j = 0; j < plan.micro_batches; ++j) {
    const int64_t first = plan.first_sample(step, j);
    context.set_samples(options.staged == nullptr ? Context::Samples{.seed = options.seed, .first = first}
                                                  : Context::Samples{.seed = options.seed,
                                                                     .first = first - plan.first_sample(step, 0),
                                                                     .origin = options.staged->origin});
    at::Tensor sum, part;
    timed(options, "forward", [&] {
      sum = task.loss_sum(inputs(j));
      part = mean(sum, count, context);
    });
    timed(options, "backward", [&] { (options.scale == 1 ? part : part.mul(options.scale)).backward(); });
    means.push_back(part.detach());
    sums.push_back(sum.detach());
  }
  work.finish();
  return {at::stack(means), at::stack(sums)};
}

}  // namespace axonn
