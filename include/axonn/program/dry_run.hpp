#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
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

// After it: whether a rank fits in a GPU of this machine, with the flags that help if it does not.
// Without a machine, a run on CPUs is compared with the host that this process runs on.
void print_memory_fit(const RunPlan& plan, const RankMemory& memory, const std::optional<Machine>& machine);

}  // namespace axonn
