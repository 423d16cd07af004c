#pragma once

#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {

Extent extent_of(const Distribution& lies);

// Adds the reads of a step's loop, and the writes.
void add_accesses(const SchedulePlan& plan, PlanStep& step);

// Adds the steps that every step waits for: those that compute what it reads, and those that touch
// a buffer before it writes there.
void add_waits(const SchedulePlan& plan, std::vector<PlanStep>& steps);

}  // namespace axonn::coconet
