#pragma once

#include "axonn/config/option_table.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_options.hpp"
#include "axonn/program/run_plan.hpp"

namespace axonn {

// All options of one program, bound to one table. Its commands share it. A subclass provides the
// options of the model and data.
class ProgramOptions {
 public:
  RunOptions run;
  OptionTable table;

  ProgramOptions() = default;
  virtual ~ProgramOptions() = default;
  ProgramOptions(const ProgramOptions&) = delete;
  ProgramOptions& operator=(const ProgramOptions&) = delete;

  virtual void apply_preset() = 0;  // sets the model's sizes that the user did not set
  // Sets values that follow from others, when all are read. UserError for two that say the same.
  virtual void settle() {}
  // Checks model and data. UserError for values that do not fit each other or the grid.
  virtual void check(const GridShape& grid) const = 0;
  virtual MemoryPrediction predict(const RunPlan& plan) const = 0;
};

// A base class for commands, so that `options` exists before members that refer to it.
template <typename Options>
struct HoldsOptions {
  Options options;
};

}  // namespace axonn
