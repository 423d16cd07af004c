#include "axonn/perfmodel/reduction/reduction_planner.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/placement/axis_placement.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.plan_reductions";
constexpr std::array kRows = {Axis::data, Axis::z, Axis::y, Axis::x};  // rows of a placement's matrix

AxisPlacement placement_of(const Machine& machine, const Grid& grid) {
  const auto placement = placement_of_order(grid.shape(), grid.order(), level_sizes(machine, grid.ranks()));
  AXONN_CHECK(placement, kWhere, "with order ", to_string(grid.order()), " a node of ", machine.name,
              " ends within an axis of grid ", grid.shape().to_string(), "; choose another order");
  return *placement;
}

// The rank on each device of the machine.
std::vector<int> ranks_of_devices(const ParallelismMatrix& matrix, const Grid& grid) {
  const Grid placed(grid.shape(), kDefaultOrder, matrix.devices_of_positions());
  std::vector<int> ranks(static_cast<size_t>(grid.ranks()));
  for (int rank = 0; rank < grid.ranks(); ++rank) ranks[static_cast<size_t>(placed.rank(grid.coordinate(rank)))] = rank;
  return ranks;
}

ReductionProgram renumbered(ReductionProgram program, const std::vector<int>& ranks) {
  for (ReductionStep& step : program.steps)
    for (std::vector<int>& group : step.groups)
      for (int& member : group) member = ranks[static_cast<size_t>(member)];
  return program;
}

}  // namespace

Network network_of(const Machine& machine, std::span<const int> sizes) {
  AXONN_CHECK(sizes.size() <= machine.levels.size(), kWhere, "machine ", machine.name, " has ", machine.levels.size(),
              " levels, got ", sizes.size());
  Network network;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t level = sizes.size() - 1 - i;  // the machine's levels are innermost first
    // As in the paper, a level is named by its units.
    network.levels.push_back({.name = level == 0 ? "gpu" : machine.levels[level - 1].name,
                              .size = sizes[i],
                              .bandwidth_bytes_per_second = machine.levels[level].bandwidth_gbps * 1e9,
                              .latency_seconds = machine.levels[level].latency_seconds,
                              .shared = true});
  }
  return network;
}

ReductionProgram PlannedReductions::on_devices(const Found& found) const {
  if (found.instructions.empty()) return {{{plain_, hierarchy_.groups}}};
  return lower(found.instructions, hierarchy_);
}

ReductionProgram PlannedReductions::program(size_t i) const { return renumbered(on_devices(found_.at(i)), ranks_); }

PlannedReductions plan_reductions(const Machine& machine, const Grid& grid, AxisSet axes, double bytes,
                                  ReductionGoal goal, int length_limit) {
  const ParallelismMatrix matrix = placement_of(machine, grid).matrix();
  std::vector<int> rows, sizes;
  for (size_t row = 0; row < kRows.size(); ++row)
    if (axes.contains(kRows[row])) rows.push_back(static_cast<int>(row));
  for (int level = 0; level < matrix.levels; ++level) sizes.push_back(matrix.level_size(level));
  PlannedReductions planned;
  planned.hierarchy_ = synthesis_hierarchy(matrix, rows);
  planned.ranks_ = ranks_of_devices(matrix, grid);
  planned.plain_ = goal == ReductionGoal::all_reduce ? Collective::all_reduce : Collective::reduce_scatter;
  const Network network = network_of(machine, sizes);
  const ReductionProgram plain = planned.on_devices({});
  planned.found_.push_back({.seconds = simulate_reduction(network, plain, bytes).seconds});
  for (InstructionProgram& instructions :
       synthesize(planned.hierarchy_.sizes, {.goal = goal, .length_limit = length_limit})) {
    const ReductionProgram program = lower(instructions, planned.hierarchy_);
    if (program == plain) continue;
    planned.found_.push_back({std::move(instructions), simulate_reduction(network, program, bytes).seconds});
  }
  std::ranges::stable_sort(planned.found_, {}, &PlannedReductions::Found::seconds);
  return planned;
}

}  // namespace axonn
