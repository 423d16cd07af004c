#pragma once

#include "axonn/config/option_table.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_options.hpp"
#include "axonn/program/run_plan.hpp"

namespace axonn {

// Everything that can be set for one program, bound to one table; its commands share it. A program says what its model and data are.
class ProgramOptions {
 public:
  RunOptions run;
  OptionTable table;

  ProgramOptions() = default;
  virtual ~ProgramOptions() = default;
  ProgramOptions(const ProgramOptions&) = delete;
  ProgramOptions& operator=(const ProgramOptions&) = delete;

  virtual void apply_preset() = 0;                      // fills the model's sizes that nobody set
  virtual void check(const GridShape& grid) const = 0;  // model and data; UserError for what fits neither each other nor the grid
  virtual MemoryPrediction predict(const RunPlan& plan) const = 0;
};

// A base of commands, made before what refers to it.
template <typename Options>
struct HoldsOptions {
  Options options;
};

}  // namespace axonn
