#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_plan.hpp"

namespace axonn {

// What --dry-run tells, whatever the model: rank 0's blocks of the parameters, the arena, the batch and the predicted memory. Under a
// launcher its rank 0 alone prints.
struct DryRun {
  std::string samples;                               // "sequences"
  std::function<bool(std::string_view name)> shown;  // which parameters; the others are laid out like one of these
  std::string others;                                // a line about them, or nothing
  std::optional<MemoryPrediction> memory = {};
};
void print_dry_run(const Context& planned, const Parameters& parameters, const RunPlan& plan, const DryRun& dry_run);

}  // namespace axonn
