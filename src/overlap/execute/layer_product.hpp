#pragma once

#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/overlap/step/row_product.hpp"
#include "overlap/execute/flat_memory.hpp"

namespace axonn {

// The product that a layer's step computes on this rank, whole or by rows. It reads the memory of
// the operands, and is theirs as long as that stays bound.
RowProduct product_of(const coconet::SchedulePlan& plan, const coconet::PlanStep& step, const FlatMemory& memory);

}  // namespace axonn
