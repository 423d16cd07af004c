#pragma once

#include <span>
#include <string>
#include <vector>

#include "axonn/perfmodel/fit/measured_runs.hpp"

namespace axonn {

// A constant of a machine, before and after a fit.
struct FittedConstant {
  std::string name;  // as in the machine's file
  double before = 0, after = 0;
  // Why it was left as it is: the runs do not depend on it, or only together with others. Empty: it
  // was fitted.
  std::string kept;
};

struct ConstantFit {
  Machine machine;
  std::vector<FittedConstant> constants;
};

// Changes six constants of the runs' machine so that predictions come near the measurements:
// gemm_efficiency, attention_efficiency, memory_efficiency, collective_share, kernel_us, and the
// bandwidth of the outermost level that the runs use. Levenberg and Marquardt's method on
// log(predicted / measured); large errors count linearly. A constant that the runs cannot tell
// stays; the bandwidth stays at most the machine's, which is the link's. UserError for fewer than
// two runs, or for two kinds of machines. Deterministic.
ConstantFit fit_constants(std::span<const MeasuredRun> runs);

// How far predictions are from measurements.
struct Errors {
  size_t runs = 0;
  double mean = 0;          // mean of |predicted / measured - 1|
  double median_ratio = 0;  // median of predicted / measured
  double worst = 0;         // largest |predicted / measured - 1|
  double within_90 = 0;     // nine of ten runs have at most this error: the band
};
Errors errors_of(std::span<const double> ratios);
// predicted / measured, on each run's own machine with the constants of this one.
std::vector<double> ratios_of(const Machine& constants, std::span<const MeasuredRun> runs);
double factor_of(std::span<const double> ratios);  // their median

// Ratios of runs that the fit did not see: fitted on every second run, judged on the others, both
// ways. In the order of `runs`. UserError for fewer than four runs.
std::vector<double> held_out_ratios(std::span<const MeasuredRun> runs);
// The same with the machine's constants and one factor, the median ratio of the runs that were
// seen: how much slower or faster one program is.
std::vector<double> held_out_by_factor(std::span<const MeasuredRun> runs);

}  // namespace axonn
