#include "program/choose_grid.hpp"

#include <cstdio>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string why_none(const SearchResult& result) {
  const Rejection* nearest = nullptr;
  for (const Rejection& rejection : result.rejections)
    if (nearest == nullptr ||
        (rejection.bytes_over > 0 && (nearest->bytes_over == 0 || rejection.bytes_over < nearest->bytes_over)))
      nearest = &rejection;
  return nearest == nullptr ? "" : detail::concatenate("; ", nearest->grid.to_string(), " fails on ", nearest->reason);
}

// A forward pass in parts keeps rows whole (ForwardSchedule).
NormRows norm_rows_of(const ForwardSchedule& forward) {
  return forward.norm_rows == NormRows::automatic && forward.split > 1 ? NormRows::off : forward.norm_rows;
}

}  // namespace

PlannedLayout choose_grid(const RunOptions& options, const NetworkModel& network, Checkpointing checkpointing,
                          int ranks) {
  AXONN_CHECK(
      !options.placement.machine.empty(), "program.choose_grid",
      "--grid auto needs --machine: a preset such as perlmutter, or a file that `axonn-config calibrate` wrote");
  const Machine machine = find_machine(options.placement.machine);
  SearchOptions search{.gpus = ranks,
                       .batch_tokens = options.train.batch * network.tokens_per_sample,
                       .precisions = {options.numerics.dtype},
                       .checkpointing = checkpointing,
                       .attention_rows = options.communication.forward.attention_rows,
                       .norm_rows = norm_rows_of(options.communication.forward),
                       .micro_batch = options.train.micro_batch,
                       .context = {.ranks = options.communication.forward.context},
                       .overlap = options.communication.overlap.switches,
                       .moments = optimizer_moments(options.train.optimizer),
                       .divided_update = divides(schedule_on(options.train.optimizer, {.data = 2},
                                                             {.device = options.numerics.c10_device()})),
                       .top = 1};
  const SearchResult result = search_grids(network, machine, search);
  AXONN_CHECK(!result.layouts.empty(), "program.choose_grid", "none of ", result.considered, " grids of ", ranks,
              " ranks fits ", network.name, " and a batch of ", options.train.batch, " ", network.samples,
              " on machine ", machine.name, why_none(result));
  const PlannedLayout& best = result.layouts.front();
  if (best.order) return best;
  // Another order would need a mapping of ranks, which is the launcher's task. Use the best layout
  // for the ranks as they are.
  search.order = kDefaultOrder;
  return plan_grid(network, machine, search, best.grid);
}

std::string chosen_grid_text(const PlannedLayout& layout, const std::string& machine) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", layout.time.seconds());
  return detail::concatenate("grid ", layout.grid.to_string(), ", order ",
                             to_string(layout.order.value_or(kDefaultOrder)),
                             layout.context.ranks > 1 ? detail::concatenate(", context ", layout.context.ranks) : "",
                             ": the planner's best for machine ", machine, ", ", seconds, " s per step predicted");
}

}  // namespace axonn
