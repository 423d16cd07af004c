#include "perfmodel/fit/constant_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace axonn {
namespace {

// Of a machine's file; the last is the bandwidth of the outermost level that the runs use.
constexpr std::array<std::string_view, 6> kNames = {
    "gemm_efficiency", "attention_efficiency", "memory_efficiency", "collective_share", "kernel_us", "bandwidth_gbps"};
constexpr size_t kCount = kNames.size(), kShares = 4, kKernel = 4, kBandwidth = 5;
using Values = std::array<double, kCount>;  // logarithms of the constants
using Vector = std::vector<double>;         // one number per run

// The outermost level that some run uses.
size_t outermost(std::span<const MeasuredRun> runs) {
  size_t levels = 1;
  for (const MeasuredRun& run : runs) levels = std::max(levels, level_sizes(run.machine, run.gpus / run.stages).size());
  return levels - 1;
}

class Fit {
 public:
  explicit Fit(std::span<const MeasuredRun> runs)
      : given_(runs.front().machine), machine_(given_), runs_(runs), level_(outermost(runs)) {
    if (machine_.kernel_seconds == 0) machine_.kernel_seconds = 1e-6;  // its logarithm must exist
    for (size_t i = 0; i < kCount; ++i) start_[i] = std::log(constant(machine_, i));
  }

  // First all that can be seen at all, from the machine's values. Then, where that ended, only
  // those that the runs tell well.
  ConstantFit run() {
    Values first = start_;
    first[kKernel] = std::max(first[kKernel], std::log(20e-6));  // a kernel time near 0 has no slope
    choose(first, 0.05);
    Values values = solved(first);
    choose(values, kTold);
    return result(solved(values));
  }

 private:
  // Of half a per cent of noise in the seconds, 3% come out in the constant.
  static constexpr double kTold = 0.005 / 0.03;

  // The constants that are kept are the machine's.
  Values solved(Values values) const {
    for (size_t i = 0; i < kCount; ++i)
      if (!kept_[i].empty()) values[i] = start_[i];
    double damping = 1e-3, least = loss(residuals(values));
    for (int round = 0; round < 40 && damping < 1e6; ++round) {
      const Values next = step(values, damping);
      const double squared = loss(residuals(next));
      if (squared >= least) {
        damping *= 4;
        continue;
      }
      const bool done = least - squared < 1e-9 * least;
      values = next;
      least = squared;
      damping /= 4;
      if (done) break;
    }
    return values;
  }

  double& constant(Machine& machine, size_t i) const {
    switch (i) {
      case 0:
        return machine.gemm_efficiency;
      case 1:
        return machine.attention_efficiency;
      case 2:
        return machine.memory_efficiency;
      case 3:
        return machine.collective_share;
      case kKernel:
        return machine.kernel_seconds;
      default:
        return machine.levels[level_].bandwidth_gbps;
    }
  }

  Machine with(const Values& values) const {
    Machine machine = machine_;
    for (size_t i = 0; i < kCount; ++i) constant(machine, i) = std::exp(values[i]);
    for (size_t i = 0; i < kShares; ++i) constant(machine, i) = std::min(constant(machine, i), 1.0);
    return machine;
  }

  Vector residuals(const Values& values) const {
    Vector found = ratios_of(with(values), runs_);
    for (double& ratio : found) ratio = std::log(ratio);
    return found;
  }

  static double squares(const Vector& vector) {
    double sum = 0;
    for (const double value : vector) sum += value * value;
    return sum;
  }

  // Grows as the square up to about kFar, then linearly: a few runs that went wrong do not decide.
  static constexpr double kFar = 0.03;
  static double loss(const Vector& vector) {
    double sum = 0;
    for (const double value : vector) sum += std::sqrt(1 + value * value / (kFar * kFar)) - 1;
    return sum;
  }
  static double weight(double residual) { return 1 / std::sqrt(1 + residual * residual / (kFar * kFar)); }

  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  // How the residuals change with the logarithm of a constant.
  Vector slope(const Values& values, const Vector& here, size_t i) const {
    constexpr double kSmall = 0.01;
    Values moved = values;
    moved[i] -= kSmall;  // downwards: a share of the peak may already be 1
    Vector found = residuals(moved);
    for (size_t run = 0; run < found.size(); ++run) found[run] = (here[run] - found[run]) / kSmall;
    return found;
  }

  // The length of a slope's part that no combination of the others can give.
  static double alone(const std::vector<Vector>& slopes, const std::vector<size_t>& others, size_t i) {
    std::vector<Vector> basis;
    const auto rest_of = [&](Vector rest) {
      for (const Vector& known : basis) {
        const double part = dot(rest, known);
        for (size_t run = 0; run < rest.size(); ++run) rest[run] -= part * known[run];
      }
      return rest;
    };
    for (const size_t other : others) {
      if (other == i) continue;
      Vector rest = rest_of(slopes[other]);
      const double length = std::sqrt(squares(rest));
      if (length < 1e-9) continue;
      for (double& value : rest) value /= length;
      basis.push_back(std::move(rest));
    }
    return std::sqrt(squares(rest_of(slopes[i])));
  }

  // Keeps, one after the other, the constant that the runs tell least, until each of the others
  // stands out of them by `enough`.
  void choose(const Values& probe, double enough) {
    constexpr double kVisible = 0.02;
    kept_ = {};
    const Vector here = residuals(probe);
    std::vector<Vector> slopes;
    std::vector<size_t> told;
    for (size_t i = 0; i < kCount; ++i) {
      slopes.push_back(slope(probe, here, i));
      told.push_back(i);
    }
    while (!told.empty()) {
      const auto least = std::ranges::min_element(told, {}, [&](size_t i) { return alone(slopes, told, i); });
      if (alone(slopes, told, *least) >= enough) break;
      const double whole = std::sqrt(squares(slopes[*least]) / static_cast<double>(runs_.size()));
      kept_[*least] = whole < kVisible ? "no run depends on it" : "the runs tell it only together with the others";
      told.erase(least);
    }
  }

  // Solves (J'WJ + damping diag(J'WJ)) step = -J'Wr for the constants that can be told.
  Values step(const Values& values, double damping) const {
    const Vector here = residuals(values);
    std::vector<size_t> told;
    std::vector<Vector> slopes;
    for (size_t i = 0; i < kCount; ++i) {
      if (!kept_[i].empty()) continue;
      told.push_back(i);
      slopes.push_back(slope(values, here, i));
    }
    for (size_t run = 0; run < here.size(); ++run)
      for (Vector& slope : slopes) slope[run] *= std::sqrt(weight(here[run]));
    Vector weighted = here;
    for (double& residual : weighted) residual *= std::sqrt(weight(residual));
    const size_t n = told.size();
    std::vector<Vector> rows(n, Vector(n + 1));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) rows[i][j] = dot(slopes[i], slopes[j]);
      rows[i][i] = rows[i][i] * (1 + damping) + 1e-12;
      rows[i][n] = -dot(slopes[i], weighted);
    }
    for (size_t i = 0; i < n; ++i)  // symmetric and positive: no pivots are needed
      for (size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const double factor = rows[j][i] / rows[i][i];
        for (size_t k = i; k <= n; ++k) rows[j][k] -= factor * rows[i][k];
      }
    Values next = values;
    for (size_t i = 0; i < n; ++i) next[told[i]] += std::clamp(rows[i][n] / rows[i][i], -1.0, 1.0);
    for (size_t i = 0; i < kShares; ++i) next[i] = std::min(next[i], 0.0);
    next[kBandwidth] = std::min(next[kBandwidth], std::log(given_.levels[level_].bandwidth_gbps));
    next[kKernel] = std::max(next[kKernel], std::log(1e-9));
    return next;
  }

  ConstantFit result(const Values& values) {
    Machine given = given_, fitted = with(values);
    ConstantFit fit;
    for (size_t i = 0; i < kCount; ++i) {
      const double unit = i == kKernel ? 1e6 : 1;
      std::string name(kNames[i]);
      if (i == kBandwidth) name += " of " + machine_.levels[level_].name;
      if (!kept_[i].empty()) constant(fitted, i) = constant(given, i);
      fit.constants.push_back({name, constant(given, i) * unit, constant(fitted, i) * unit, kept_[i]});
    }
    fit.machine = std::move(fitted);
    return fit;
  }

  Machine given_, machine_;
  std::span<const MeasuredRun> runs_;
  size_t level_;
  Values start_{};
  std::array<std::string, kCount> kept_;
};

}  // namespace

ConstantFit search_constants(std::span<const MeasuredRun> runs) { return Fit(runs).run(); }

}  // namespace axonn
