#include "axonn/overlap/step/gradient_programs.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "grid/reduction/addition_order.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "overlap.gradient_programs";
constexpr AxisSet kOverData = Axis::data, kOverZ = Axis::z;
constexpr AxisSet kOverZAndData = {Axis::z, Axis::data};

std::vector<std::vector<int>> groups_of(const Grid& grid, AxisSet axes) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : grid.groups(axes)) groups.push_back(group.ranks);
  return groups;
}

// Why `program` does not sum gradients over `axes`; empty when it does.
std::string fault(const ReductionProgram& program, const Grid& grid, AxisSet axes) {
  try {
    if (axes == kOverZ)
      ReductionRunner::check_scatters(program, groups_of(grid, axes));
    else
      check_reduces(program, groups_of(grid, axes), ReductionGoal::all_reduce);
    return "";
  } catch (const UserError& error) {
    return error.sentence();
  }
}

AxisSet summed_axes(const ReductionProgram& program, const Grid& grid) {
  const auto complain = [&](const std::string& what) -> AxisSet {
    throw UserError(kWhere, "program '" + program.to_string() + "' does not sum gradients on grid " +
                                grid.shape().to_string() + ": " + what + " (reduction 'ring' is for any grid)");
  };
  const std::string over_data = fault(program, grid, kOverData);
  if (over_data.empty()) return kOverData;
  if (grid.shape().z == 1) return complain(over_data);
  const std::string over_both = fault(program, grid, kOverZAndData);
  if (over_both.empty()) return kOverZAndData;
  const std::string over_z = fault(program, grid, kOverZ);
  return over_z.empty()
             ? kOverZ
             : complain("over data, " + over_data + "; over z+data, " + over_both + "; scattered over z, " + over_z);
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
    if (axes != kOverZ) check_addition_order(program, groups_of(grid, axes));
    AXONN_CHECK(std::ranges::find(all, axes) == all.end(), kWhere, "two programs sum over ", axes.to_string(),
                " on grid ", grid.shape().to_string(), "; give one for data, one for z+data and one for z at most");
    all.push_back(axes);
  }
  return all;
}

GradientPrograms::GradientPrograms(Environment& environment, Communicators& communicators, const Grid& grid, int rank,
                                   c10::Device device, const std::vector<int>& job_ranks,
                                   const std::vector<ReductionProgram>& programs)
    : GradientSums(communicators), shape_(grid.shape()) {
  const std::vector<AxisSet> axes = check_gradient_programs(programs, grid);
  for (size_t i = 0; i < programs.size(); ++i) {
    ReductionRunnerOptions options{.device = device, .job_ranks = job_ranks};
    if (axes[i] == kOverZ) options.scatter_groups = groups_of(grid, kOverZ);
    programs_.push_back({axes[i], ReductionRunner(environment, programs[i], rank, grid.ranks(), options)});
  }
}

GradientPrograms::Program* GradientPrograms::program_over(AxisSet axes) {
  const auto found = std::ranges::find(programs_, axes, &Program::axes);
  return found == programs_.end() ? nullptr : &*found;
}

Request GradientPrograms::all_reduce(const GradientBucket& bucket) {
  Program* program = program_over(shape_.z == 1 ? kOverData : bucket.axes);
  return program == nullptr ? GradientSums::all_reduce(bucket)
                            : program->runner.run(gradients_of(bucket), options_for(bucket));
}

Request GradientPrograms::reduce_scatter(const GradientBlock& block) {
  Program* program = program_over(kOverZ);
  if (program == nullptr) return GradientSums::reduce_scatter(block);
  return program->runner.reduce_scatter(block.whole, block.shard, block.bundle.counts, options_for(block));
}

}  // namespace axonn
