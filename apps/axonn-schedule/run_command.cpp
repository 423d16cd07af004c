#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <axonn/comm/environment.hpp>
#include <axonn/core/error.hpp>
#include <axonn/overlap/execute/plan_executor.hpp>
#include <axonn/overlap/execute/rank_tuning.hpp>
#include <axonn/coconet/oracle/oracle.hpp>

#include "schedule_commands.hpp"

using namespace axonn;
using namespace axonn::coconet;

namespace {

// Beyond it, the oracle's fp64 numbers of all ranks would not fit beside the run's.
constexpr int64_t kMostCompared = int64_t{1} << 22;

at::Tensor as_tensor(const std::vector<double>& numbers) {
  return at::from_blob(const_cast<double*>(numbers.data()), {std::ssize(numbers)}, at::kDouble);
}

// This rank's group of the program, and its number there.
struct Place {
  int group = 0, rank = 0;
  bool has(const PlanExecutor& executor, const std::string& value) const {
    const int on = executor.plan().program().type(value).group;
    return on == group || on == TensorType::kEveryGroup;
  }
};

void fill(PlanExecutor& executor, const OracleInputs& inputs, const Place& place) {
  for (const auto& [name, parts] : inputs) {
    if (!place.has(executor, name)) continue;
    const at::Tensor whole = as_tensor(parts.size() > 1 ? parts[static_cast<size_t>(place.rank)] : parts[0]);
    int64_t done = 0;
    for (const Range& range : executor.held(name)) {
      executor.memory(name).narrow(0, done, range.size()).copy_(whole.narrow(0, range.begin, range.size()));
      done += range.size();
    }
  }
}

// The largest difference of this rank's elements of a result and the oracle's, relative to the
// larger of 1 and the number.
double difference_of(const PlanExecutor& executor, const std::string& name, const OracleValue& expected, int rank) {
  using axonn::coconet::Placement;
  const Distribution& lies = expected.distribution;
  if (lies.is(Placement::rooted) && lies.root != rank) return 0;
  const std::vector<double>& whole = expected.parts[lies.is(Placement::local) ? static_cast<size_t>(rank) : 0];
  const auto relative = [](double got, double number) {
    return std::abs(got - number) / std::max(1.0, std::abs(number));
  };
  const SchedulePlan& plan = executor.plan();
  if (!plan.home(plan.value(name))) return relative(executor.number(name), whole.at(0));
  const at::Tensor got = executor.memory(name).to(at::kDouble);
  const double* next = got.const_data_ptr<double>();
  double worst = 0;
  for (const Range& range : executor.held(name))
    for (int64_t i = range.begin; i < range.end; ++i)
      worst = std::max(worst, relative(*next++, whole[static_cast<size_t>(i)]));
  return worst;
}

double worst_difference(const PlanExecutor& executor, const OracleResult& expected, const Place& place) {
  double worst = 0;
  for (const auto* results : {&expected.states, &expected.outputs})
    for (const auto& [name, value] : *results)
      if (place.has(executor, name)) worst = std::max(worst, difference_of(executor, name, value, place.rank));
  return worst;
}

}  // namespace

int run_run(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  Environment environment;
  share_cores(environment);
  const int ranks = std::max(1, environment.ranks() / file.program.parts().groups);  // per group
  const Place place{environment.rank() / ranks, environment.rank() % ranks};
  OracleOptions oracle{
      .ranks = ranks, .sizes = sizes_of(file.program, options, 0), .scalars = scalars_of(file.program, options)};
  for (const std::string& name : schedules_of(file, options)) {
    const Program scheduled = file.scheduled(name).program();
    of_schedule(file, name, [&] {
      PlanExecutor::check_size(SchedulePlan(scheduled), oracle.sizes, ranks, environment.local_ranks());
    });
  }
  const OracleInputs inputs = random_inputs(file.program, oracle, options.seed);
  int64_t elements = 0;
  for (const auto& [name, parts] : inputs) elements += std::ssize(parts) * std::ssize(parts[0]);
  const bool compares = elements <= kMostCompared;
  const OracleResult expected = compares ? run_oracle(file.program, inputs, oracle) : OracleResult{};
  for (const std::string& name : schedules_of(file, options)) {
    const std::unique_ptr<PlanExecutor> made = of_schedule(file, name, [&] {
      return std::make_unique<PlanExecutor>(SchedulePlan(file.scheduled(name).program()), environment,
                                            ExecutorOptions{.sizes = oracle.sizes});
    });
    PlanExecutor& executor = *made;
    for (const auto& [scalar, value] : oracle.scalars) executor.set(scalar, value);
    fill(executor, inputs, place);
    executor.run();
    at::Tensor worst = at::full({1}, compares ? worst_difference(executor, expected, place) : 0, at::kDouble);
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
