#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_plan.hpp"

namespace axonn {

// The output of --dry-run for any model: rank 0's blocks of the parameters, the arena, the batch
// and the predicted memory. Under a launcher only rank 0 prints.
struct DryRun {
  std::string samples;                               // "sequences"
  std::function<bool(std::string_view name)> shown;  // parameters to show; the others have the layout of one of these
  std::string others;                                // a line about the others, or empty
  std::optional<MemoryPrediction> memory = {};
};
void print_dry_run(const Context& planned, const Parameters& parameters, const RunPlan& plan, const DryRun& dry_run);

}  // namespace axonn
