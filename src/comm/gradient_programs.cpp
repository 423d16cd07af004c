#include "axonn/comm/gradient_programs.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/grid/reduction_semantics.hpp"
#include "comm/addition_order.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.gradient_programs";
constexpr AxisSet kOverData = Axis::data;
constexpr AxisSet kOverZAndData = {Axis::z, Axis::data};

std::vector<std::vector<int>> groups_of(const Grid& grid, AxisSet axes) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : grid.groups(axes)) groups.push_back(group.ranks);
  return groups;
}

// Why `program` does not sum over `axes`; empty when it does.
std::string fault(const ReductionProgram& program, const Grid& grid, AxisSet axes) {
  try {
    check_reduces(program, groups_of(grid, axes), ReductionGoal::all_reduce);
    return "";
  } catch (const UserError& error) {
    return error.sentence();
  }
}

AxisSet summed_axes(const ReductionProgram& program, const Grid& grid) {
  const auto complain = [&](const std::string& what) -> AxisSet {
    throw UserError(kWhere,
                    "program '" + program.to_string() + "' does not sum gradients on grid " + grid.shape().to_string() + ": " + what);
  };
  const std::string over_data = fault(program, grid, kOverData);
  if (over_data.empty()) return kOverData;
  if (grid.shape().z == 1) return complain(over_data);
  const std::string over_both = fault(program, grid, kOverZAndData);
  return over_both.empty() ? kOverZAndData : complain("over data, " + over_data + "; over z+data, " + over_both);
}

}  // namespace

std::vector<ReductionProgram> parse_gradient_programs(std::string_view text) {
  std::vector<ReductionProgram> programs;
  if (text == "ring") return programs;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    programs.push_back(parse_reduction_program(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return programs;
}

std::vector<AxisSet> check_gradient_programs(const std::vector<ReductionProgram>& programs, const Grid& grid) {
  std::vector<AxisSet> all;
  for (const ReductionProgram& program : programs) {
    const AxisSet axes = summed_axes(program, grid);
    check_addition_order(program, groups_of(grid, axes));
    AXONN_CHECK(std::ranges::find(all, axes) == all.end(), kWhere, "two programs sum over ", axes.to_string(), " on grid ",
                grid.shape().to_string(), "; give one for data and one for z+data at most");
    all.push_back(axes);
  }
  return all;
}

GradientPrograms::GradientPrograms(Environment& environment, Communicators& communicators, const Grid& grid, int rank, c10::Device device,
                                   const std::vector<int>& job_ranks, const std::vector<ReductionProgram>& programs)
    : communicators_(communicators), shape_(grid.shape()) {
  const std::vector<AxisSet> axes = check_gradient_programs(programs, grid);
  for (size_t i = 0; i < programs.size(); ++i)
    programs_.push_back({axes[i], ReductionRunner(environment, programs[i], rank, grid.ranks(), device, job_ranks)});
}

Request GradientPrograms::operator()(const GradientBucket& bucket) {
  const AxisSet axes = shape_.z == 1 ? kOverData : bucket.axes;
  const at::Tensor part = bucket.arena.gradients().narrow(0, bucket.range.begin, bucket.range.size());
  const CollectiveOptions options{
      .priority = queue_of(Traffic::data), .after = bucket.after, .tag = "gradients", .arena_offset = bucket.range.begin};
  const auto found = std::ranges::find(programs_, axes, &Program::axes);
  if (found != programs_.end()) return found->runner.run(part, options);
  return communicators_[bucket.axes].all_reduce(part, ReduceOp::sum, options);
}

}  // namespace axonn
