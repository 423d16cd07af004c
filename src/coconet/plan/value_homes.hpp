#pragma once

#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {

// The places of a program's values: in storage that exists anyway, where that is safe.
struct ValueHomes {
  std::vector<PlanBuffer> buffers;
  std::vector<BufferId> of;  // by value
};

ValueHomes choose_homes(const Program& program, const PlanValues& values);

}  // namespace axonn::coconet
