#include "medians.hpp"

#include <chrono>

#include <ATen/ops/from_blob.h>

#include "axonn/core/median.hpp"

namespace axonn::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::vector<double> medians(Environment& environment, int repetitions,
                            const std::vector<std::function<void()>>& calls) {
  std::vector<std::vector<double>> samples(calls.size());
  for (int repetition = -1; repetition < repetitions; ++repetition)
    for (size_t i = 0; i < calls.size(); ++i) {
      environment.world().barrier().wait();
      const double seconds = seconds_of(calls[i]);
      if (repetition >= 0) samples[i].push_back(seconds);  // the first repetition warms up
    }
  std::vector<double> result;
  for (auto& times : samples) {
    const at::Tensor slowest = at::from_blob(times.data(), {repetitions}, at::kDouble);
    environment.world().all_reduce(slowest, ReduceOp::max).wait();
    result.push_back(median(times));
  }
  return result;
}

}  // namespace axonn::bench
