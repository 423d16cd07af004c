#include "overlap/execute/executor_ranks.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.executor";

// Pairs of groups between which something is sent, in one order on all ranks.
std::set<std::pair<int, int>> borders_of(const Program& program) {
  std::set<std::pair<int, int>> borders;
  for (const Statement& statement : program.statements()) {
    if (!statement.expression.is(Operation::send)) continue;
    const int from = program.type(statement.expression.operands()[0]).group, to = program.type(statement.name).group;
    borders.emplace(std::min(from, to), std::max(from, to));
  }
  return borders;
}

}  // namespace

ExecutorRanks::ExecutorRanks(const Program& program, Communicator& group) : group_(&group) {
  AXONN_CHECK(program.parts().groups == 1, kWhere, program.name(), ": sends between ", program.parts().groups,
              " groups; give the executor the Environment of a job, and not one communicator");
}

ExecutorRanks::ExecutorRanks(const Program& program, Environment& environment) {
  const int groups = program.parts().groups, all = environment.ranks();
  AXONN_CHECK(all % groups == 0, kWhere, program.name(), " has ", groups,
              " groups of equally many ranks: start a multiple of ", groups, " ranks, got ", all);
  group_ = &environment.world();
  if (groups == 1) return;
  const int ranks = all / groups, index = environment.rank() % ranks;
  number_ = environment.rank() / ranks;
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), number_ * ranks);
  const Group own{.axes = {}, .ranks = std::move(members), .index = index};
  made_ = environment.communicator(own, "group");
  group_ = made_.get();
  for (const auto& [first, second] : borders_of(program)) {
    if (first != number_ && second != number_) continue;
    const Group pair{
        .axes = {}, .ranks = {first * ranks + index, second * ranks + index}, .index = first == number_ ? 0 : 1};
    transfers_.emplace(std::piecewise_construct, std::forward_as_tuple(first == number_ ? second : first),
                       std::forward_as_tuple(environment.communicator(own, "border slices"),
                                             environment.communicator(pair, "border")));
  }
}

}  // namespace axonn
