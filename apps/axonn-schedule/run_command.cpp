#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <axonn/comm/environment.hpp>
#include <axonn/core/error.hpp>
#include <axonn/grid/block_owners.hpp>
#include <axonn/overlap/execute/plan_executor.hpp>
#include <axonn/overlap/execute/rank_tuning.hpp>
#include <axonn/overlap/oracle/oracle.hpp>

#include "schedule_commands.hpp"

using namespace axonn;
using namespace axonn::overlap;

namespace {

// Beyond it, the oracle's fp64 numbers of all ranks would not fit beside the run's.
constexpr int64_t kMostCompared = int64_t{1} << 22;

// The elements of a declared tensor that this rank keeps.
std::vector<Range> kept_ranges(const TensorType& type, int64_t count, const Environment& environment) {
  if (!type.distribution.is(axonn::overlap::Placement::sliced)) return {{0, count}};
  return BlockOwners(environment.ranks()).ranges(environment.rank(), {0, count});
}

at::Tensor as_tensor(const std::vector<double>& numbers) {
  return at::from_blob(const_cast<double*>(numbers.data()), {std::ssize(numbers)}, at::kDouble);
}

void fill(PlanExecutor& executor, const OracleInputs& inputs, const Environment& environment) {
  for (const auto& [name, parts] : inputs) {
    const auto rank = static_cast<size_t>(environment.rank());
    const at::Tensor whole = as_tensor(parts.size() > 1 ? parts[rank] : parts[0]);
    int64_t done = 0;
    for (const Range& range : kept_ranges(executor.plan().program().type(name), whole.numel(), environment)) {
      executor.memory(name).narrow(0, done, range.size()).copy_(whole.narrow(0, range.begin, range.size()));
      done += range.size();
    }
  }
}

// The largest difference between this rank's tensors and the oracle's, relative to the larger of 1
// and the number.
double worst_difference(const PlanExecutor& executor, const OracleResult& expected, const Environment& environment) {
  double worst = 0;
  for (const auto& [name, state] : expected.states) {
    const at::Tensor got = executor.memory(name).to(at::kDouble);
    const double* next = got.const_data_ptr<double>();
    const std::vector<double>& whole = state.parts[0];
    for (const Range& range : kept_ranges(executor.plan().program().type(name), std::ssize(whole), environment))
      for (int64_t i = range.begin; i < range.end; ++i, ++next) {
        const double number = whole[static_cast<size_t>(i)];
        worst = std::max(worst, std::abs(*next - number) / std::max(1.0, std::abs(number)));
      }
  }
  return worst;
}

}  // namespace

int run_run(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  Environment environment;
  share_cores(environment);
  OracleOptions oracle{.ranks = environment.ranks(),
                       .sizes = sizes_of(file.program, options, 0),
                       .scalars = scalars_of(file.program, options)};
  const OracleInputs inputs = random_inputs(file.program, oracle, options.seed);
  int64_t elements = 0;
  for (const auto& [name, parts] : inputs) elements += std::ssize(parts) * std::ssize(parts[0]);
  const bool compares = elements <= kMostCompared;
  const OracleResult expected = compares ? run_oracle(file.program, inputs, oracle) : OracleResult{};
  for (const std::string& name : schedules_of(file, options)) {
    PlanExecutor executor(SchedulePlan(file.scheduled(name).program()), environment.world(), {.sizes = oracle.sizes});
    for (const auto& [scalar, value] : oracle.scalars) executor.set(scalar, value);
    fill(executor, inputs, environment);
    executor.run();
    at::Tensor worst = at::full({1}, compares ? worst_difference(executor, expected, environment) : 0, at::kDouble);
    environment.world().all_reduce(worst, ReduceOp::max).wait();
    std::vector<double> seconds;
    for (int i = 0; i < options.repeats; ++i) {
      environment.world().barrier().wait();
      const auto start = std::chrono::steady_clock::now();
      executor.run();
      environment.world().barrier().wait();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(seconds);
    if (environment.rank() != 0) continue;
    std::printf("%-16s %d ranks  %9.3f ms (median of %d)", name.c_str(), environment.ranks(),
                seconds[seconds.size() / 2] * 1e3, options.repeats);
    if (compares) std::printf("  largest difference from the oracle %.1e", worst.item<double>());
    std::printf("\n");
  }
  return 0;
}
