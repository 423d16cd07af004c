#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"

namespace axonn {
namespace {

std::string text_of(std::span<const int> group) {
  return join(group.first(std::min<size_t>(group.size(), 8)), "+") + (group.size() > 8 ? "+..." : "");
}

std::string name_of(const ReductionProgram& program, size_t step, std::span<const int> group) {
  return detail::concatenate("step ", step + 1, " (", to_string(program.steps[step].collective), "), group ",
                             text_of(group), ": ");
}

// The device holds exactly the chunks for which `wanted` is true, each summed over `whole`.
bool holds_exactly(const ReductionState& state, int device, std::span<const uint64_t> whole, auto&& wanted) {
  for (int chunk = 0; chunk < state.devices(); ++chunk)
    if (wanted(chunk) ? !std::ranges::equal(state.contributions(device, chunk), whole) : state.holds(device, chunk))
      return false;
  return true;
}

bool reached_by_group(const ReductionState& state, std::span<const int> group, ReductionGoal goal) {
  const int members = static_cast<int>(group.size()), each = state.devices() / members;
  std::vector<uint64_t> whole(state.contributions(0, 0).size(), 0);
  for (const int device : group) whole[static_cast<size_t>(device) / 64] |= uint64_t{1} << (device % 64);
  std::vector<char> taken(static_cast<size_t>(state.devices()), 0);
  for (int i = 0; i < members; ++i) {
    const int device = group[static_cast<size_t>(i)];
    int count = 0;
    const bool exact = holds_exactly(state, device, whole, [&](int chunk) {
      if (goal == ReductionGoal::all_reduce) return true;
      if (goal == ReductionGoal::reduce_scatter) return chunk / each == i && state.devices() % members == 0;
      return state.holds(device, chunk) && ++count <= each && taken[static_cast<size_t>(chunk)]++ == 0;
    });
    if (!exact || (goal == ReductionGoal::scatter && count != each)) return false;
  }
  return true;
}

// The steps of one group of the reduction, each with the indices of its members in the group.
using Work = std::vector<std::pair<size_t, std::vector<int>>>;

std::vector<Work> work_of_groups(const ReductionProgram& program, std::span<const std::vector<int>> groups) {
  std::map<int, std::pair<size_t, int>> place;  // rank -> its group and its index there
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].size(); ++i)
      AXONN_CHECK(place.emplace(groups[g][i], std::pair(g, static_cast<int>(i))).second, "grid.check_reduces", "rank ",
                  groups[g][i], " is in two groups of the reduction");
  std::vector<Work> work(groups.size());
  for (size_t s = 0; s < program.steps.size(); ++s)
    for (const auto& ranks : program.steps[s].groups) {
      std::vector<int> indices;
      for (const int rank : ranks) {
        const auto found = place.find(rank);
        AXONN_CHECK(found != place.end(), "grid.check_reduces", name_of(program, s, ranks), "rank ", rank,
                    " is in no group of the reduction");
        AXONN_CHECK(found->second.first == place.at(ranks[0]).first, "grid.check_reduces", name_of(program, s, ranks),
                    "ranks ", ranks[0], " and ", rank,
                    " are in different groups of the reduction, their data must not be summed");
        indices.push_back(found->second.second);
      }
      work[place.at(ranks[0]).first].emplace_back(s, std::move(indices));
    }
  return work;
}

}  // namespace

bool reached(const ReductionState& state, std::span<const std::vector<int>> groups, ReductionGoal goal) {
  return std::ranges::all_of(groups,
                             [&](const std::vector<int>& group) { return reached_by_group(state, group, goal); });
}

void check_reduces(const ReductionProgram& program, std::span<const std::vector<int>> groups, ReductionGoal goal) {
  int most = 0;
  for (const auto& group : groups)
    for (const int rank : group) most = std::max(most, rank + 1);
  check_reduction_program(program, most);
  const auto work = work_of_groups(program, groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    ReductionState state(static_cast<int>(groups[g].size()));
    for (const auto& [s, indices] : work[g]) {
      std::vector<int> ranks;
      for (const int i : indices) ranks.push_back(groups[g][static_cast<size_t>(i)]);
      const auto fault = state.apply(program.steps[s].collective, indices);
      AXONN_CHECK(fault == ReductionFault::none, "grid.check_reduces", name_of(program, s, ranks), to_string(fault));
    }
    std::vector<int> all(groups[g].size());
    std::iota(all.begin(), all.end(), 0);
    AXONN_CHECK(reached_by_group(state, all, goal), "grid.check_reduces",
                "after its last step the program has not reduced group ", text_of(groups[g]));
  }
}

}  // namespace axonn
