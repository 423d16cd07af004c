#pragma once

#include <string>

#include "axonn/coconet/language/dataflow.hpp"
#include "axonn/coconet/oracle/oracle.hpp"
#include "axonn/coconet/plan/run_settings.hpp"

namespace axonn::coconet {

// Why SchedulePlan or PlanExecutor does not run a program: their error. "" if they do.
std::string refusal_of(const Program& program, const SizeValues& sizes);

// Runs a program by PlanExecutor on threads as ranks. The results of the ranks are put together
// like the oracle's; replicas must have the same bits. Of `options` it uses the ranks per group,
// sizes, scalars and seed. Element 0 has the place `arena_offset` in an arena, which decides who
// owns which elements of sliced tensors.
OracleResult run_on_ranks(const Program& program, const OracleInputs& inputs, const OracleOptions& options,
                          int64_t arena_offset, const RunSettings& run = {});

}  // namespace axonn::coconet
