#include "program/choose_reduction.hpp"

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "axonn/perfmodel/reduction/reduction_planner.hpp"

namespace axonn {
namespace {

// Some programs add in a different order on different replicas.
bool serves(const ReductionProgram& program, const Grid& grid) {
  try {
    check_gradient_programs({program}, grid);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

std::vector<ReductionProgram> choose_reduction(const std::string& machine_name, int64_t bucket_bytes,
                                               const Grid& grid) {
  AXONN_CHECK(
      !machine_name.empty(), "program.choose_reduction",
      "--reduction auto needs --machine: a preset such as perlmutter, or a file that `axonn-config calibrate` wrote");
  const Machine machine = find_machine(machine_name);
  const auto bytes = static_cast<double>(bucket_bytes);
  struct Sum {
    AxisSet axes;
    ReductionGoal goal = ReductionGoal::all_reduce;
  };
  std::vector<Sum> sums = {{Axis::data}};
  if (grid.shape().z > 1) sums = {{Axis::data}, {{Axis::z, Axis::data}}, {Axis::z, ReductionGoal::scatter}};
  std::vector<ReductionProgram> programs;
  for (const auto& [axes, goal] : sums) {
    if (grid.shape().size(axes) == 1) continue;
    const auto planned = plan_reductions(machine, grid, axes, bytes, goal);
    size_t best = 0;
    ReductionProgram program = planned.program(best);
    while (!serves(program, grid)) {
      AXONN_ASSERT(best + 1 < planned.size(), "a plain collective serves");
      program = planned.program(++best);
    }
    const bool plain = program.steps.size() == 1;
    if (!plain) programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace axonn
