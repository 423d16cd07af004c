#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <axonn/perfmodel/fit/constant_fit.hpp>

#include "fit/fit_commands.hpp"

using MeasuredRuns = std::vector<axonn::MeasuredRun>;

// Runs of one file on one kind of GPU.
struct MeasuredGroup {
  std::string file, gpu;
  MeasuredRuns runs;
  std::vector<double> with_preset, held_out, by_factor;
  axonn::ConstantFit fit;

  std::string name() const;
  // The best judgement of runs that were not seen.
  const std::vector<double>& judged() const { return held_out.empty() ? by_factor : held_out; }
};

// The runs of all files. Directories of runs are one group. Throws UserError.
std::vector<MeasuredGroup> read_groups(const FitFlags& flags, const PlannerOptions& line);

// Words and JSON that fit and validate share.
std::string percent(double share, int digits = 1);
std::string errors_text(const axonn::Errors& errors);
void print_runs(const MeasuredRuns& runs, const std::vector<double>& ratios);
void print_constants(const axonn::ConstantFit& fit);
nlohmann::ordered_json constants_json(const axonn::ConstantFit& fit);
nlohmann::ordered_json errors_json(const axonn::Errors& errors);

// Measured seconds across, predicted ones up, both logarithmic; on the diagonal they are equal.
void write_validation_plot(const std::string& file, const std::vector<MeasuredGroup>& all);
