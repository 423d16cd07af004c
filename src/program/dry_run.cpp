#include "axonn/program/dry_run.hpp"

#include <cstdio>
#include <vector>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/train/batch_plan.hpp"

namespace axonn {
namespace {

void print_memory(const char* part, int64_t bytes) {
  std::printf("  %-22s %12s\n", part, bytes_text(static_cast<double>(bytes)).c_str());
}

void print_parameters(const Arena& arena, const DryRun& dry_run) {
  std::printf("  %-28s %-44s %-22s %12s\n", "parameter", "global shape / axis", "block on a rank", "stored");
  for (const ArenaSlot& slot : arena.slots())
    if (dry_run.shown(slot.name))
      std::printf("  %-28s %-44s %-22s %12lld\n", slot.name.c_str(), slot.spec.to_string().c_str(),
                  join(slot.block_shape, " x ").c_str(), static_cast<long long>(slot.stored));
  if (!dry_run.others.empty()) std::printf("  %s\n", dry_run.others.c_str());
  for (const ArenaSection& section : arena.sections())
    std::printf("\narena, %s, %s: %lld elements", section.over_z ? "cut over z" : "whole on every z",
                section.decay ? "decayed" : "not decayed", static_cast<long long>(section.range.size()));
}

void print_memory(const MemoryPrediction& memory) {
  std::printf("\npredicted memory per rank\n");
  print_memory("weights", memory.weight_bytes);
  print_memory("gradients", memory.gradient_bytes);
  print_memory("optimizer", memory.optimizer_bytes);
  print_memory("gathered weights", memory.gathered_bytes);
  print_memory("activations", memory.activation_bytes);
  print_memory("logits", memory.logits_bytes);
  print_memory("a block's backward", memory.block_bytes);
  print_memory("total", memory.total_bytes());
}

struct RoomOfARank {
  double bytes = 0;
  std::string source;
};

RoomOfARank room_in(const std::optional<Machine>& machine) {
  if (!machine)
    return {host_bytes(), "all that this machine has, for all of its ranks (--machine compares with a GPU's memory)"};
  const double margin = SearchOptions().memory_margin;
  return {machine->memory_bytes() * (1 - margin),
          detail::concatenate("the ", bytes_text(machine->memory_bytes()), " of ", machine->name, "'s ", machine->gpu,
                              " without ", 100 * margin, "% for libraries and fragmentation")};
}

}  // namespace

void print_memory_fit(const RunPlan& plan, const RankMemory& memory, const std::optional<Machine>& machine) {
  if (launched_rank() != 0) return;
  if (!machine && !plan.context.device.is_cpu()) {
    std::printf("\n--machine compares with the memory of a GPU, such as --machine dgx-h100\n");
    return;
  }
  const RoomOfARank room = room_in(machine);
  const bool fits = static_cast<double>(memory.bytes(plan)) <= room.bytes;
  std::printf("\n%s %s: %s\n", fits ? "fits in" : "does not fit in", bytes_text(room.bytes).c_str(),
              room.source.c_str());
  if (!fits) std::printf("%s\n", what_fits(plan, memory, static_cast<int64_t>(room.bytes)).c_str());
}

void print_dry_run(const Context& planned, const Parameters& parameters, const RunPlan& plan, const DryRun& dry_run) {
  if (launched_rank() != 0) return;
  const GridShape& shape = planned.shape();
  std::printf("%s parameters on %s (%lld ranks), rank 0 holds\n\n",
              with_unit(static_cast<double>(parameters.global_numel())).c_str(), shape.to_string().c_str(),
              static_cast<long long>(shape.ranks()));
  print_parameters(parameters.arena(), dry_run);
  const int64_t context = plan.context.forward.context;
  const BatchPlan batch = plan_batch(plan.train.batch, plan.rows(), shape, planned.at(), context);
  std::printf("\n\n%s\n", batch_text(batch, dry_run.samples, shape, context).c_str());
  if (dry_run.memory) print_memory(*dry_run.memory);
}

}  // namespace axonn
