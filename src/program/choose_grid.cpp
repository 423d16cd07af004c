#include "axonn/program/choose_grid.hpp"

#include <cstdio>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

Precision precision_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBFloat16:
      return Precision::bf16;
    case at::kHalf:
      return Precision::fp16;
    case at::kDouble:
      return Precision::fp64;
    default:
      return Precision::fp32;
  }
}

std::string why_none(const SearchResult& result) {
  const Rejection* nearest = nullptr;
  for (const Rejection& rejection : result.rejections)
    if (nearest == nullptr || (rejection.bytes_over > 0 && (nearest->bytes_over == 0 || rejection.bytes_over < nearest->bytes_over)))
      nearest = &rejection;
  return nearest == nullptr ? "" : detail::concatenate("; ", nearest->grid.to_string(), " fails on ", nearest->reason);
}

}  // namespace

PlannedLayout choose_grid(RunOptions& options, const NetworkModel& network, Checkpointing checkpointing, int ranks) {
  AXONN_CHECK(!options.machine.empty(), "train.choose_grid",
              "--grid auto needs --machine: a preset such as perlmutter, or a file that `axonn-config calibrate` wrote");
  const Machine machine = find_machine(options.machine);
  const OverlapPolicy policy = options.policy();
  SearchOptions search{.gpus = {ranks},
                       .batch_tokens = options.train.batch * network.tokens_per_sample,
                       .precisions = {precision_of(options.dtype)},
                       .checkpointing = checkpointing,
                       .micro_batch = options.train.micro_batch,
                       .overlap = {.all_reduce = policy.all_reduce,
                                   .reduce_scatter = policy.reduce_scatter,
                                   .all_gather = policy.all_gather,
                                   .cache = policy.cache,
                                   .buckets = policy.buckets},
                       .optimizer = options.train.optimizer,
                       .top = 1};
  const SearchResult result = search_grids(network, machine, search);
  AXONN_CHECK(!result.layouts.empty(), "train.choose_grid", "none of ", result.considered, " grids of ", ranks, " ranks fits ",
              network.name, " and a batch of ", options.train.batch, " ", network.samples, " on machine ", machine.name, why_none(result));
  PlannedLayout best = result.layouts.front();
  if (!best.order) {  // its ranks would have to be mapped, which is the launcher's: the best with ranks as they are
    search.order = kDefaultOrder;
    best = plan_grid(network, machine, search, best.grid);
  }
  options.grid = best.grid.to_string();
  options.order = to_string(best.order.value_or(kDefaultOrder));
  if (options.train.micro_batch == 0) options.train.micro_batch = best.micro_batch;
  return best;
}

std::string chosen_grid_text(const RunOptions& options, const PlannedLayout& layout) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", layout.time.seconds());
  return detail::concatenate("grid ", options.grid, ", order ", options.order, ": the planner's best for machine ", options.machine, ", ",
                             seconds, " s a step predicted");
}

}  // namespace axonn
