#pragma once

#include "axonn/overlap/plan/schedule_plan.hpp"
#include "axonn/overlap/step/row_product.hpp"
#include "overlap/execute/executor_memory.hpp"

namespace axonn::overlap {

// The product that a layer's step computes on this rank, whole or by rows. It reads the memory of
// the operands, and is theirs as long as that stays bound.
RowProduct product_of(const SchedulePlan& plan, const PlanStep& step, const ExecutorMemory& memory);

}  // namespace axonn::overlap
