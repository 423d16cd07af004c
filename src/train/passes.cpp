#include "axonn/train/passes.hpp"

#include <vector>

#include <ATen/ops/stack.h>

#include "axonn/layers/loss.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

void timed(const PassOptions& options, const char* pass, const auto& work) {
  const auto begin = Clock::now();
  work();
  if (options.on_pass) options.on_pass(pass, begin, Clock::now());
}

}  // namespace

PassLosses run_passes(Context& context, TrainTask& task, const BatchPlan& plan, int64_t step,
                      const PassOptions& options) {
  const auto count = static_cast<double>(plan.batch * task.tokens_per_sample());
  std::vector<at::Tensor> means, sums;
  auto work = context.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
  for (int64_t j = 0; j < plan.micro_batches; ++j) {
    const int64_t first = plan.first_sample(step, j);
    context.set_samples({.seed = options.seed, .first = first});
    at::Tensor sum, part;
    timed(options, "forward", [&] {
      const bool last = j + 1 == plan.micro_batches;
      task.prefetch(last ? plan.first_sample(step + 1, 0) : plan.first_sample(step, j + 1), plan.micro_batch);
      sum = task.loss_sum(first, plan.micro_batch);
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
