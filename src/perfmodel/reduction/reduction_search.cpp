#include "perfmodel/reduction/reduction_search.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int kGoal = -1;
constexpr int kFar = 1 << 20;

struct Edge {
  int choice;
  int to;  // a node, or kGoal
};

struct Node {
  int depth;
  std::vector<Edge> edges;
  int to_goal = kFar;  // fewest steps to the goal, within the limit
};

struct StateHash {
  size_t operator()(const ReductionState* state) const { return state->hash(); }
};
struct SameState {
  bool operator()(const ReductionState* a, const ReductionState* b) const { return *a == *b; }
};

// Builds the graph of states breadth first, then collects the paths to the goal.
class Search {
 public:
  Search(std::span<const ReductionStep> choices, std::span<const std::vector<int>> groups, ReductionGoal goal,
         int limit)
      : choices_(choices), groups_(groups), goal_(goal), limit_(limit) {}

  std::vector<std::vector<int>> run(int devices) {
    whole_.assign(static_cast<size_t>(devices), 0);
    for (const auto& group : groups_)
      for (const int device : group)
        for (const int other : group) whole_[static_cast<size_t>(device)] |= uint64_t{1} << other;
    AXONN_CHECK(std::ranges::find(whole_, 0u) == whole_.end(), "perfmodel.search_reductions",
                "every device must be in a group of the reduction");
    ReductionState start(devices);
    if (reached(start, groups_, goal_)) return {{}};
    node_of(std::move(start), 0);
    for (size_t n = 0; n < nodes_.size(); ++n) expand(static_cast<int>(n));
    measure();
    for (int length = 1; length <= limit_; ++length) collect(0, length);
    return std::move(found_);
  }

 private:
  int node_of(ReductionState state, int depth) {
    const auto known = index_.find(&state);
    if (known != index_.end()) return known->second;
    states_.push_back(std::move(state));
    index_.emplace(&states_.back(), static_cast<int>(nodes_.size()));
    nodes_.push_back({.depth = depth});
    return static_cast<int>(nodes_.size()) - 1;
  }

  // The collectives that may take a state to an all-reduce's goal in one step.
  struct Outlook {
    bool everyone_has_all = true;   // every device holds every chunk: needed for an all-reduce
    bool all_is_whole = true;       // every held chunk is fully reduced: needed for an all-gather
    bool somebody_is_done = false;  // a device holds every chunk fully reduced: needed for a broadcast
  };

  Outlook outlook(const ReductionState& state) const {
    Outlook found;
    for (int device = 0; device < state.devices(); ++device) {
      bool done = true;
      for (int chunk = 0; chunk < state.devices(); ++chunk) {
        const uint64_t has = state.contributions(device, chunk)[0];
        found.everyone_has_all = found.everyone_has_all && has != 0;
        found.all_is_whole = found.all_is_whole && (has == 0 || has == whole_[static_cast<size_t>(device)]);
        done = done && has == whole_[static_cast<size_t>(device)];
      }
      found.somebody_is_done = found.somebody_is_done || done;
    }
    return found;
  }

  bool can_end(Collective collective, const Outlook& now) const {
    if (goal_ != ReductionGoal::all_reduce) return collective != Collective::all_reduce;
    return (collective == Collective::all_reduce && now.everyone_has_all) ||
           (collective == Collective::all_gather && now.all_is_whole) ||
           (collective == Collective::broadcast && now.somebody_is_done);
  }

  bool can_end(const ReductionState& state) const {
    const Outlook now = outlook(state);
    return std::ranges::any_of(kCollectives, [&](Collective collective) { return can_end(collective, now); });
  }

  void expand(int n) {
    const int left = limit_ - nodes_[static_cast<size_t>(n)].depth;
    const Outlook now = outlook(states_[static_cast<size_t>(n)]);
    for (size_t choice = 0; choice < choices_.size(); ++choice) {
      const ReductionStep& step = choices_[choice];
      const bool may_end = can_end(step.collective, now);
      if (left == 1 && !may_end) continue;
      ReductionState next = states_[static_cast<size_t>(n)];
      if (next.apply(step) != ReductionFault::none) continue;
      const bool done = may_end && reached(next, groups_, goal_);
      if (!done && (left == 1 || (left == 2 && !can_end(next)))) continue;
      const int to = done ? kGoal : node_of(std::move(next), limit_ - left + 1);
      nodes_[static_cast<size_t>(n)].edges.push_back({static_cast<int>(choice), to});
    }
  }

  // Relaxes until nothing changes, because a step can lead back to an earlier state.
  void measure() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
        for (const Edge& edge : node->edges) {
          const int through = 1 + (edge.to == kGoal ? 0 : nodes_[static_cast<size_t>(edge.to)].to_goal);
          if (through < node->to_goal) {
            node->to_goal = through;
            changed = true;
          }
        }
    }
  }

  void collect(int n, int left) {
    for (const Edge& edge : nodes_[static_cast<size_t>(n)].edges) {
      path_.push_back(edge.choice);
      if (edge.to == kGoal && left == 1) found_.push_back(path_);
      if (edge.to != kGoal && nodes_[static_cast<size_t>(edge.to)].to_goal < left) collect(edge.to, left - 1);
      path_.pop_back();
    }
  }

  std::span<const ReductionStep> choices_;
  std::span<const std::vector<int>> groups_;
  ReductionGoal goal_;
  int limit_;
  std::vector<uint64_t> whole_;        // for each device, the contributions of a fully reduced chunk
  std::deque<ReductionState> states_;  // index_ points to the elements, so they must not move
  std::vector<Node> nodes_;
  std::unordered_map<const ReductionState*, int, StateHash, SameState> index_;
  std::vector<int> path_;
  std::vector<std::vector<int>> found_;
};

}  // namespace

std::vector<std::vector<int>> search_reductions(int devices, std::span<const ReductionStep> choices,
                                                std::span<const std::vector<int>> groups, ReductionGoal goal,
                                                int length_limit) {
  AXONN_CHECK(devices >= 1 && devices <= 64, "perfmodel.search_reductions",
              "programs are searched for 1 to 64 devices, got ", devices);
  AXONN_CHECK(length_limit >= 1, "perfmodel.search_reductions", "the length limit must be at least 1 step, got ",
              length_limit);
  return Search(choices, groups, goal, length_limit).run(devices);
}

}  // namespace axonn
