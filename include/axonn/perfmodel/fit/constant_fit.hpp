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

// Ratios of runs that the fit did not see: fitted on every second run, judged on the others, both
// ways. In the order of `runs`. UserError for fewer than four runs.
std::vector<double> held_out_ratios(std::span<const MeasuredRun> runs);

// By how much computation is slower than with the constants of the first run's machine, so that the
// median of predicted / measured is 1: one program's factor. The network stays the machine's, so
// more of the communication is hidden. From 1/16 to 16.
double slowdown_of(std::span<const MeasuredRun> runs);
// As held_out_ratios(), with the machine's constants and only the factor of the runs that were
// seen.
std::vector<double> held_out_by_factor(std::span<const MeasuredRun> runs);

}  // namespace axonn
