#include "perfmodel/search/grid_contexts.hpp"

#include <utility>

#include "axonn/grid/divisors.hpp"

namespace axonn {

std::vector<SearchOptions> of_each_context(const NetworkModel& network, const SearchOptions& options) {
  if (options.context.ranks != kAutomaticContext) return {options};
  std::vector<SearchOptions> all;
  for (const int ranks : divisors(options.gpus)) {
    if (ranks > 1 && network.tokens_per_sample % (2 * int64_t{ranks}) != 0) continue;
    all.push_back(options);
    all.back().context.ranks = ranks;
  }
  return all;
}

std::optional<Rejection> find_planners(const NetworkModel& network, const Machine& machine,
                                       const std::vector<SearchOptions>& contexts, const GridShape& grid,
                                       const std::vector<int64_t>& level_sizes, std::vector<GridPlanner>& fitting) {
  std::optional<Rejection> why;
  const size_t before = fitting.size();
  for (const SearchOptions& options : contexts) {
    GridPlanner planner(network, machine, options, grid, level_sizes);
    const auto rejection = planner.rejection();
    if (!rejection)
      fitting.push_back(std::move(planner));
    else if (!why || (rejection->bytes_over > 0 && (why->bytes_over == 0 || rejection->bytes_over < why->bytes_over)))
      why = rejection;
  }
  return fitting.size() > before ? std::nullopt : why;
}

}  // namespace axonn
