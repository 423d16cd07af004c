#include "perfmodel/search/grid_planner.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr double kRounding = 1e-9;

auto order_of(const PlannedLayout& layout) {
  return std::tuple(layout.time.seconds(), layout.memory.total_bytes(), layout.micro_batch);
}

// Compares two forms of a grid. Values that differ only by rounding are equal.
bool better(const PlannedLayout& a, const PlannedLayout& b) {
  const double slack = kRounding * std::max(a.value, b.value);
  if (a.value < b.value - slack) return true;
  if (a.value > b.value + slack) return false;
  return order_of(a) < order_of(b);
}

}  // namespace

std::optional<std::string> misfit_of(const NetworkModel& network, const SearchOptions& options, const GridShape& grid) {
  if (auto reason = network.why_impossible(grid)) return reason;
  if (!holds_context(grid, options.context))
    return std::string(to_string(context_axis(grid, options.context))) + " % context";
  const auto reason = [&](const char* end) {
    return std::string(options.context.ranks > 1 ? "batch % (z data / context" : "batch % (z data") + end;
  };
  const int64_t sequences = options.batch_tokens / network.tokens_per_sample,
                parts = sample_parts(grid, options.context);
  if (sequences % parts != 0) return reason(")");
  if (options.micro_batch > 0 && sequences / parts % options.micro_batch != 0) return reason(" micro-batch)");
  return std::nullopt;
}

GridPlanner::GridPlanner(const NetworkModel& network, const Machine& machine, const SearchOptions& options,
                         const GridShape& grid, const std::vector<int64_t>& level_sizes)
    : network_(&network),
      machine_(&machine),
      options_(&options),
      level_sizes_(&level_sizes),
      grid_(grid),
      plans_(network, machine, options, grid) {
  if (const auto reason = misfit_of(network, options, grid)) {
    rejection_ = {.grid = grid, .reason = *reason};
    return;
  }
  plans_.find();
  if (plans_.all().empty()) rejection_ = {.grid = grid, .reason = "memory", .bytes_over = plans_.bytes_over()};
}

void GridPlanner::find_choices() {
  const std::vector<int64_t>& level_sizes = *level_sizes_;
  const auto context_link = [&](const AxisPlacement& placement) {
    return neighbours_link(placement, context_axis(grid_, options_->context), options_->context.ranks, *machine_);
  };
  const bool latency = options_->coefficients == Coefficients::trainer;
  const bool exact = options_->mode == BandwidthMode::exact;
  const AxisOrder order = options_->order.value_or(kDefaultOrder);
  if (every_placement()) {
    for (AxisPlacement& placement : placements(grid_, level_sizes)) {
      const AxisLinks links = placed_links(placement, *machine_, options_->multi_level, latency);
      const AxisLink context = context_link(placement);
      choices_.push_back({std::move(placement), links, context});
    }
    return;
  }
  auto placement = placement_of_order(grid_, order, level_sizes);
  if (!exact) {
    choices_.push_back(
        {std::move(placement), ordered_links(options_->mode, grid_, order, *machine_, level_sizes, latency)});
  } else if (placement) {
    const AxisLinks links = placed_links(*placement, *machine_, options_->multi_level, latency);
    const AxisLink context = context_link(*placement);
    choices_.push_back({std::move(placement), links, context});
  } else {  // a level ends within an axis that it does not divide
    std::vector<int> nodes(static_cast<size_t>(grid_.ranks()));
    for (size_t rank = 0; rank < nodes.size(); ++rank)
      nodes[rank] = static_cast<int>(static_cast<int64_t>(rank) / machine_->node_size());
    const AxisLinks links = counted_links(Grid(grid_, order), nodes, *machine_, latency);
    choices_.push_back({std::nullopt, links, link_of(links, context_axis(grid_, options_->context))});
  }
}

int64_t GridPlanner::candidates() const {
  int64_t forms = 0;
  for (const MemoryPlan& plan : plans_.all()) forms += static_cast<int64_t>(plan.micro_batches.size());
  return every_placement() ? forms * count_placements(grid_, *level_sizes_) : forms;
}

StepSettings GridPlanner::settings(const PlacementChoice& choice, const MemoryPlan& plan, int64_t micro_batch,
                                   double cached) const {
  return {.batch_tokens = static_cast<double>(options_->batch_tokens),
          .micro_batches = plans_.sequences() / micro_batch,
          .recompute = plan.recompute,
          .attention_rows = plan.attention_rows,
          .norm_rows = plan.norm_rows,
          .block_messages = options_->block_messages ? network_->blocks : 0,
          .divided_update = options_->divided_update,
          .divided_gradients = options_->divided_gradients,
          .precision = plan.precision,
          .overlap = options_->overlap,
          .coefficients = options_->coefficients,
          .cached = cached,
          .moments = options_->moments,
          .moment_bytes = options_->moment_bytes,
          .stages = options_->stages,
          .virtual_stages = options_->virtual_stages,
          .context = options_->context,
          .context_link = choice.context_link};
}

double GridPlanner::value(const StepTime& time, const MemoryPrediction& memory) const {
  switch (options_->objective) {
    case Objective::time:
      return time.seconds();
    case Objective::communication:
      return time.communication.total();
    case Objective::memory:
      return static_cast<double>(memory.total_bytes());
    case Objective::cost:
      return time.seconds() / 3600 * static_cast<double>(grid_.ranks()) * machine_->dollars_per_gpu_hour;
  }
  return 0;
}

// One pass with every weight cached. More passes are never faster, because
// prolongs(a) + prolongs(b) >= prolongs(a + b).
double GridPlanner::lower_bound(const PlacementChoice& choice, const MemoryPlan& plan) const {
  StepSettings one_pass = settings(choice, plan, plans_.sequences(), 1);
  one_pass.stages = 1;  // a pipeline's bubble is longest with one pass
  const StepTime time = predict_step(network_->layers, grid_, choice.links, *machine_, one_pass);
  return value(time, plans_.memory(plan, plan.micro_batches.front()));
}

double GridPlanner::rough_bound(const AxisLinks& least) const {
  double bound = std::numeric_limits<double>::infinity();
  for (const MemoryPlan& plan : plans_.all()) bound = std::min(bound, lower_bound({.links = least}, plan));
  return bound;
}

double GridPlanner::bound() const {
  double least = std::numeric_limits<double>::infinity();
  for (const PlacementChoice& choice : choices_)
    for (const MemoryPlan& plan : plans_.all()) least = std::min(least, lower_bound(choice, plan));
  return least;
}

PlannedLayout GridPlanner::layout(const PlacementChoice& choice, const MemoryPlan& plan, int64_t micro_batch) const {
  PlannedLayout layout = {.grid = grid_,
                          .links = choice.links,
                          .context = options_->context,
                          .context_link = choice.context_link,
                          .precision = plan.precision,
                          .micro_batch = micro_batch};
  layout.memory = plans_.memory(plan, micro_batch);
  if (settings(choice, plan, micro_batch, 1).caches() && grid_.z > 1 && options_->objective != Objective::memory) {
    const double free = plans_.usable_bytes() - static_cast<double>(layout.memory.total_bytes());
    layout.cached = std::clamp(free / plan.gathered_bytes, 0.0, 1.0);
    layout.cache_bytes = static_cast<int64_t>(layout.cached * plan.gathered_bytes);
  }
  layout.micro_batches = plans_.sequences() / micro_batch;
  layout.recompute = plan.recompute;
  layout.attention_rows = plan.attention_rows;
  layout.norm_rows = plan.norm_rows;
  layout.prefetch = plan.rich ? kPrefetch : 1;
  layout.outstanding = plan.rich ? kOutstanding : 1;
  layout.time = predict_step(network_->layers, grid_, choice.links, *machine_,
                             settings(choice, plan, micro_batch, layout.cached));
  layout.value = value(layout.time, layout.memory);
  return layout;
}

PlannedLayout GridPlanner::best(bool prune, int64_t* evaluated) const {
  std::optional<PlannedLayout> best;
  const PlacementChoice* chosen = nullptr;
  for (const PlacementChoice& choice : choices_) {
    for (const MemoryPlan& plan : plans_.all()) {
      if (prune && best && lower_bound(choice, plan) > best->value * (1 + 2 * kRounding)) continue;
      for (const int64_t micro_batch : plan.micro_batches) {
        PlannedLayout next = layout(choice, plan, micro_batch);
        ++*evaluated;
        if (best && !better(next, *best)) continue;
        best = std::move(next);
        chosen = &choice;
      }
    }
  }
  AXONN_ASSERT(best, "grid ", grid_.to_string(), " has no plan");
  best->placement = chosen->placement;
  complete(*best);
  return std::move(*best);
}

void GridPlanner::complete(PlannedLayout& layout) const {
  if (options_->order || options_->mode != BandwidthMode::exact)
    layout.order = options_->order.value_or(kDefaultOrder);
  else
    layout.order = order_of_placement(*layout.placement);
  const double seconds = layout.time.seconds(), gpus = static_cast<double>(grid_.ranks()),
               tokens = static_cast<double>(options_->batch_tokens);
  const double possible = seconds * gpus * machine_->peak_flops(layout.precision);
  layout.tokens_per_second = tokens / seconds;
  layout.model_utilisation = tokens * hardware_flops_per_token(network_->layers, Recomputation::none) / possible;
  layout.hardware_utilisation = tokens * hardware_flops_per_token(network_->layers, layout.recompute) / possible;
  layout.dollars = seconds / 3600 * gpus * machine_->dollars_per_gpu_hour;
}

}  // namespace axonn
