#include "overlap/execute/plan_memory.hpp"

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;

PlanMemory::PlanMemory(const SchedulePlan& plan) : plan_(plan) {
  for (const Declaration& declaration : plan.program().declarations())
    if (declaration.value) numbers[declaration.name] = *declaration.value;
}

void PlanMemory::set(std::string_view scalar, double value) {
  const Declaration* declaration = plan_.program().find_declaration(scalar);
  AXONN_CHECK(declaration != nullptr && declaration->type.is_scalar(), "overlap.executor", "'", scalar,
              "' must be a declared scalar of ", plan_.program().name());
  numbers[declaration->name] = value;
}

std::vector<double> combined(ReduceOp op, std::span<const LoopPartial> partials, int64_t rows) {
  std::vector<std::vector<double>> values(static_cast<size_t>(rows));
  for (const LoopPartial& partial : partials) values[static_cast<size_t>(partial.row)].push_back(partial.value);
  std::vector<double> results;
  for (const std::vector<double>& row : values) results.push_back(StageChain::combine(op, row));
  return results;
}

}  // namespace axonn
