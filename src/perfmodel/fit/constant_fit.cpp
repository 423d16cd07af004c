#include "axonn/perfmodel/fit/constant_fit.hpp"

#include <algorithm>
#include <cmath>

#include "axonn/core/error.hpp"
#include "axonn/core/median.hpp"
#include "perfmodel/fit/constant_search.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.fit";

// The machine, with what a fit changes as in `constants`.
Machine with_constants(Machine machine, const Machine& constants) {
  machine.gemm_efficiency = constants.gemm_efficiency;
  machine.attention_efficiency = constants.attention_efficiency;
  machine.memory_efficiency = constants.memory_efficiency;
  machine.collective_share = constants.collective_share;
  machine.kernel_seconds = constants.kernel_seconds;
  for (size_t level = 0; level < std::min(machine.levels.size(), constants.levels.size()); ++level)
    machine.levels[level].bandwidth_gbps = constants.levels[level].bandwidth_gbps;
  return machine;
}

}  // namespace

ConstantFit fit_constants(std::span<const MeasuredRun> runs) {
  AXONN_CHECK(runs.size() >= 2, kWhere, "a fit needs at least two runs, got ", runs.size(), ": add some");
  const Machine& first = runs.front().machine;
  for (const MeasuredRun& run : runs)
    AXONN_CHECK(run.machine.gpu == first.gpu && run.machine.levels.size() == first.levels.size(), kWhere, run.place,
                " ran on ", run.machine.name, ", ", runs.front().place, " on ", first.name,
                ": give the runs of one kind of machine at a time");
  return search_constants(runs);
}

std::vector<double> ratios_of(const Machine& constants, std::span<const MeasuredRun> runs) {
  std::vector<double> ratios;
  for (const MeasuredRun& run : runs)
    ratios.push_back(predicted_seconds(run, with_constants(run.machine, constants)) / run.seconds);
  return ratios;
}

Errors errors_of(std::span<const double> ratios) {
  Errors errors = {.runs = ratios.size()};
  if (ratios.empty()) return errors;
  std::vector<double> off;
  for (const double ratio : ratios) {
    off.push_back(std::abs(ratio - 1));
    errors.mean += off.back() / static_cast<double>(ratios.size());
  }
  std::ranges::sort(off);
  errors.median_ratio = median({ratios.begin(), ratios.end()});
  errors.worst = off.back();
  errors.within_90 = off[(off.size() * 9 + 9) / 10 - 1];
  return errors;
}

namespace {

double median_of(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  const size_t middle = ratios.size() / 2;
  return ratios.size() % 2 == 1 ? ratios[middle] : std::sqrt(ratios[middle - 1] * ratios[middle]);
}

Machine slowed(Machine machine, double factor) {
  for (double* share : {&machine.gemm_efficiency, &machine.attention_efficiency, &machine.memory_efficiency})
    *share /= factor;
  machine.kernel_seconds *= factor;
  return machine;
}

// Ratios of each half of the runs, by judge(the other half, that half).
template <typename Judge>
std::vector<double> both_ways(std::span<const MeasuredRun> runs, const Judge& judge) {
  AXONN_CHECK(runs.size() >= 4, kWhere, "to judge a fit on runs that it did not see needs at least four, got ",
              runs.size(), ": add some");
  std::vector<double> ratios(runs.size());
  for (const size_t seen : {0, 1}) {
    std::vector<MeasuredRun> mine, others;
    for (size_t i = 0; i < runs.size(); ++i) (i % 2 == seen ? mine : others).push_back(runs[i]);
    const std::vector<double> judged = judge(mine, others);
    for (size_t i = 0; i < judged.size(); ++i) ratios[2 * i + 1 - seen] = judged[i];
  }
  return ratios;
}

}  // namespace

std::vector<double> held_out_ratios(std::span<const MeasuredRun> runs) {
  return both_ways(runs,
                   [](const auto& seen, const auto& others) { return ratios_of(fit_constants(seen).machine, others); });
}

double slowdown_of(std::span<const MeasuredRun> runs) {
  constexpr double kMost = 16, kNear = 1e-4;
  double factor = 1;
  for (int round = 0; round < 40; ++round) {  // a step grows no faster than its factor: no step goes too far
    const double ratio = median_of(ratios_of(slowed(runs.front().machine, factor), runs));
    factor = std::clamp(factor / ratio, 1 / kMost, kMost);
    if (std::abs(ratio - 1) < kNear) break;
  }
  return factor;
}

std::vector<double> held_out_by_factor(std::span<const MeasuredRun> runs) {
  return both_ways(runs, [](const auto& seen, const auto& others) {
    return ratios_of(slowed(others.front().machine, slowdown_of(seen)), others);
  });
}

}  // namespace axonn
