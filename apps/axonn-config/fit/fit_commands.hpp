#pragma once

#include <string>
#include <vector>

#include "options/planner_options.hpp"

namespace CLI {
class App;
}

// Flags of fit and validate.
struct FitFlags {
  std::vector<std::string> runs;  // CSV files
  std::string out;                // fit: the machine file to write

  void add_to_fit(CLI::App& app, PlannerOptions& options);
  void add_to_validate(CLI::App& app, PlannerOptions& options);
};

// Fits a machine's constants to measured runs, prints predicted beside measured, writes the
// machine.
int run_fit(const FitFlags& flags, const PlannerOptions& line);
// Predicted beside measured for published or own runs: with the machine's constants, and with
// constants fitted to every second run and judged on the others.
int run_validate(const FitFlags& flags, const PlannerOptions& line);
