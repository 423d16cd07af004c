#pragma once

#include <string>
#include <string_view>
#include <vector>

// The tasks of a job step by Slurm's variables.
namespace axonn::slurm {

// The first host of a list such as "node[003-005,7],login1" (SLURM_STEP_NODELIST).
std::string first_host(std::string_view list);

// Tasks of each node, from a text such as "4(x2),3" (SLURM_STEP_TASKS_PER_NODE). UserError if it is
// none.
std::vector<int> tasks_per_node(std::string_view text);

// A port for the ranks of a step: the same on all of them. Other steps mostly get another.
int port_of(int job, int step);

}  // namespace axonn::slurm
