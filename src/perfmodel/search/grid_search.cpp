#include "axonn/perfmodel/search/grid_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/grid/divisors.hpp"
#include "perfmodel/search/grid_contexts.hpp"

namespace axonn {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;
constexpr int64_t kFarthestCount = 10'000;
constexpr double kRounding = 1e-9;  // far above the error of the sums, far below the difference of two layouts

bool within_bounds(const GridShape& grid, const SearchOptions& options) {
  for (const Axis axis : kAxes)
    if (options.fixed[axis] != 0 && options.fixed[axis] != grid[axis]) return false;
  const int64_t tensor = grid.size({Axis::x, Axis::y, Axis::z});
  return tensor >= options.min_tensor && tensor <= options.max_tensor;
}

void check_options(const NetworkModel& network, const Machine& machine, const SearchOptions& options) {
  constexpr std::string_view kWhere = "perfmodel.grid_search";
  const std::string where(kWhere);
  AXONN_CHECK(options.gpus >= 1 && options.gpus <= kMostGpus, where, "the number of GPUs must be from 1 to ", kMostGpus,
              ", got ", options.gpus);
  AXONN_CHECK(options.batch_tokens >= 1 && options.batch_tokens <= kMostTokens, where, "the batch must be from 1 to ",
              kMostTokens, " ", network.tokens, ", got ", options.batch_tokens);
  const int64_t sequence = network.tokens_per_sample, below = options.batch_tokens / sequence * sequence;
  AXONN_CHECK(below == options.batch_tokens, where, "the batch must be whole ", network.samples, " of ", sequence, " ",
              network.tokens, ", got ", options.batch_tokens,
              below > 0 ? detail::concatenate("; the nearest are ", below, " and ", below + sequence)
                        : detail::concatenate("; the nearest is ", sequence));
  AXONN_CHECK(options.min_tensor >= 1 && options.max_tensor >= options.min_tensor, where,
              "the tensor degree must be from 1 and its bounds in order, got ", options.min_tensor, " to ",
              options.max_tensor);
  const int64_t context = options.context.ranks;
  AXONN_CHECK(context == kAutomaticContext || context == 1 || (context > 1 && sequence % (2 * context) == 0), where,
              "each of ", context, " ranks of a context has two parts of ", network.samples, " of ", sequence, " ",
              network.tokens, ": give a context whose double divides them, or 1");
  AXONN_CHECK(context == 1 || (options.mode == BandwidthMode::exact && options.coefficients == Coefficients::trainer),
              where,
              "a context is counted in mode exact with the coefficients of the trainer: remove --mode and "
              "--coefficients");
  AXONN_CHECK(options.norm_rows != NormRows::on || network.divides_norms, where, "the norms of ", network.name,
              " need all rows of a sample: give norm rows auto or off");
  AXONN_CHECK(options.norm_rows == NormRows::off || options.coefficients == Coefficients::trainer, where,
              "norm rows are counted with the coefficients of the trainer only: remove --coefficients, or give norm "
              "rows off");
  AXONN_CHECK(options.top >= 1, where, "at least one layout must be asked for, got ", options.top);
  AXONN_CHECK(options.micro_batch >= 0, where, "the micro-batch must not be negative, got ", options.micro_batch);
  AXONN_CHECK(options.memory_margin >= 0 && options.memory_margin < 1, where,
              "the margin of memory must be in [0, 1), got ", options.memory_margin);
  AXONN_CHECK(options.objective != Objective::cost || machine.dollars_per_gpu_hour > 0, where, "machine ", machine.name,
              " has no price: set dollars_per_hour in [gpu]");
  for (const Precision precision : options.precisions)
    AXONN_CHECK(machine.peak_flops(precision) > 0, where, "machine ", machine.name, " has no peak for ",
                to_string(precision));
}

// Equal for values that may differ only by the order of additions.
double rank_key(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 33)), exponent - 33);
}

auto place(const PlannedLayout& layout) {
  const GridShape& grid = layout.grid;
  return std::tuple(rank_key(layout.value), grid.x, grid.y, grid.z, grid.data);
}

// Whether a grid of `count` GPUs is within the bounds and divides the network and the batch, memory
// aside. Only grids whose z x data divides the batch are looked at.
bool has_grid(const NetworkModel& network, const SearchOptions& options, int64_t count) {
  const int64_t samples = options.batch_tokens / network.tokens_per_sample;
  const auto factors = divisors(count);
  const auto has = [&](const SearchOptions& with) {
    for (const int parts : divisors(std::gcd(count, samples * with.context.ranks))) {
      const auto tensor = static_cast<int>(count / parts);
      for (const int x : factors)
        for (const int z : factors) {
          const GridShape grid{.x = x, .y = tensor / x, .z = z, .data = parts / z};
          if (tensor % x == 0 && parts % z == 0 && within_bounds(grid, with) && !misfit_of(network, with, grid))
            return true;
        }
    }
    return false;
  };
  SearchOptions these = options;
  these.gpus = count;
  return std::ranges::any_of(of_each_context(network, these), has);
}

// The links of a grid's axes, each as fast as any placement of the axis makes it.
class LeastLinks {
 public:
  LeastLinks(const Machine& machine, const SearchOptions& options, const std::vector<int64_t>& level_sizes)
      : machine_(machine), options_(options), level_sizes_(level_sizes) {}

  AxisLinks of(const GridShape& grid) {
    AxisLinks links;
    for (const Axis axis : kAxes) {
      const auto [known, added] = by_size_.try_emplace(grid[axis]);
      if (added)
        known->second = least_link(grid[axis], level_sizes_, machine_, options_.multi_level,
                                   options_.coefficients == Coefficients::trainer);
      links[static_cast<size_t>(axis)] = known->second;
    }
    return links;
  }

 private:
  const Machine& machine_;
  const SearchOptions& options_;
  const std::vector<int64_t>& level_sizes_;
  std::map<int, AxisLink> by_size_;
};

// Keeps the best `top` layouts, of each grid the best one. A layout worse than all of them is
// dropped.
class Ranking {
 public:
  explicit Ranking(int64_t top) : top_(static_cast<size_t>(std::min<int64_t>(top, kMostGpus))) {}

  double threshold() const {
    return layouts_.size() < top_ ? std::numeric_limits<double>::infinity() : layouts_.back().value;
  }

  void add(PlannedLayout layout) {
    const auto same = std::ranges::find(layouts_, layout.grid, &PlannedLayout::grid);
    if (same != layouts_.end()) {
      const auto order = [](const PlannedLayout& one) { return std::tuple(rank_key(one.value), one.context.ranks); };
      if (order(*same) <= order(layout)) return;
      layouts_.erase(same);
    }
    const auto at =
        std::ranges::upper_bound(layouts_, place(layout), {}, [](const PlannedLayout& other) { return place(other); });
    layouts_.insert(at, std::move(layout));
    if (layouts_.size() > top_) layouts_.pop_back();
  }

  std::vector<PlannedLayout> take() {
    for (size_t i = 1; i < layouts_.size(); ++i)
      layouts_[i].ties_with_previous = rank_key(layouts_[i].value) == rank_key(layouts_[i - 1].value);
    return std::move(layouts_);
  }

 private:
  size_t top_;
  std::vector<PlannedLayout> layouts_;
};

}  // namespace

SearchResult search_grids(const NetworkModel& network, const Machine& machine, const SearchOptions& options) {
  check_options(network, machine, options);
  SearchResult result;
  std::vector<GridPlanner> fitting;
  // The next grid by a lower bound of its objective: a rough one or, `placed`, of its placements.
  using Entry = std::tuple<double, bool, size_t>;  // bound, placed, place in `fitting`
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto sizes = level_sizes(machine, options.gpus);
  const std::vector<SearchOptions> contexts = of_each_context(network, options);
  LeastLinks least(machine, options, sizes);
  for (const GridShape& grid : factorisations(options.gpus)) {
    if (!within_bounds(grid, options)) continue;
    ++result.considered;
    const size_t first = fitting.size();
    if (auto rejection = find_planners(network, machine, contexts, grid, sizes, fitting))
      result.rejections.push_back(std::move(*rejection));
    for (size_t i = first; i < fitting.size(); ++i) {
      result.candidates += fitting[i].candidates();
      queue.emplace(fitting[i].bounds_roughly() ? fitting[i].rough_bound(least.of(grid)) : 0, false, i);
    }
  }
  Ranking ranking(options.top);
  while (!queue.empty()) {
    const auto [bound, placed, at] = queue.top();
    if (bound > ranking.threshold() * (1 + kRounding)) break;
    queue.pop();
    GridPlanner& planner = fitting[at];
    if (placed) {
      ranking.add(planner.best(options.prune, &result.evaluated));
      continue;
    }
    planner.find_choices();
    queue.emplace(options.prune ? planner.bound() : 0, true, at);
  }
  result.layouts = ranking.take();
  return result;
}

PlannedLayout plan_grid(const NetworkModel& network, const Machine& machine, const SearchOptions& options,
                        const GridShape& grid) {
  SearchOptions one = options;
  one.gpus = grid.ranks();
  check_options(network, machine, one);
  const auto sizes = level_sizes(machine, grid.ranks());
  const std::vector<SearchOptions> contexts = of_each_context(network, one);
  std::vector<GridPlanner> fitting;
  if (const auto rejection = find_planners(network, machine, contexts, grid, sizes, fitting)) {
    const std::string by = rejection->bytes_over == 0 ? ""
                                                      : ": " + bytes_text(static_cast<double>(rejection->bytes_over)) +
                                                            " too much; choose a grid with more ranks on x, y or z";
    throw UserError("perfmodel.plan_grid", detail::concatenate("grid ", grid.to_string(), " is not possible for ",
                                                               network.name, " (", rejection->reason, ")", by));
  }
  Ranking ranking(1);
  int64_t evaluated = 0;
  for (GridPlanner& planner : fitting) {
    planner.find_choices();
    ranking.add(planner.best(one.prune, &evaluated));
  }
  return std::move(ranking.take().front());
}

std::vector<int64_t> nearest_batches(const NetworkModel& network, const Machine& machine,
                                     const SearchOptions& options) {
  check_options(network, machine, options);
  const int64_t samples = options.batch_tokens / network.tokens_per_sample;
  const int64_t most = kMostTokens / network.tokens_per_sample;
  const ContextSplit context = of_each_context(network, options).front().context;
  int64_t part = 0;  // the largest z x data
  for (const GridShape& grid : factorisations(options.gpus))
    if (within_bounds(grid, options) && !network.why_impossible(grid) && holds_context(grid, context))
      part = std::max(part, sample_parts(grid, context) * std::max<int64_t>(options.micro_batch, 1));
  std::vector<int64_t> batches;
  if (part == 0) return batches;
  const int64_t below = samples / part * part, above = (samples + part - 1) / part * part;
  if (below > 0) batches.push_back(below);
  if (above <= most && above != below) batches.push_back(above);
  return batches;
}

std::vector<int64_t> nearest_gpu_counts(const NetworkModel& network, const Machine& machine,
                                        const SearchOptions& options, int64_t gpus) {
  std::vector<int64_t> counts;
  for (const int64_t step : {-1, 1}) {
    for (int64_t count = gpus + step; count >= 1 && count <= kMostGpus && std::abs(count - gpus) <= kFarthestCount;
         count += step) {
      if (!fills_levels(machine, count) || !has_grid(network, options, count)) continue;
      counts.push_back(count);
      break;
    }
  }
  return counts;
}

}  // namespace axonn
