#pragma once

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn {

// UserError that names what PlanExecutor cannot run on groups of so many ranks.
void check_runs(const coconet::SchedulePlan& plan, int ranks);

}  // namespace axonn
