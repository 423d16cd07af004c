#include "overlap/execute/plan_memory.hpp"

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;

PlanMemory::PlanMemory(const SchedulePlan& plan, int ranks)
    : plan_(plan), ranks_(ranks), numbers_(plan.values().size()) {
  for (const Declaration& declaration : plan.program().declarations())
    if (declaration.value) set(plan.value(declaration.name), *declaration.value);
}

void PlanMemory::set(std::string_view scalar, double value) {
  const ValueId id = plan_.values().find(scalar);
  AXONN_CHECK(id && plan_[id].declared && plan_[id].type.is_scalar(), "overlap.executor", "'", scalar,
              "' must be a declared scalar of ", plan_.program().name());
  set(id, value);
}

std::vector<double> combined(ReduceOp op, std::span<const LoopPartial> partials, int64_t rows) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rows));
  for (const LoopPartial& partial : partials) values[static_cast<size_t>(partial.row)].push_back(partial.value);
  std::vector<double> results;
  for (const std::vector<double>& row : values) results.push_back(StageChain::combine(op, row));
  return results;
}

}  // namespace axonn
