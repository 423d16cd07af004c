#pragma once

#include <string>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/tune/tuner.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/comm/environment.hpp"

// The ranks of a job, as a tuner needs them.
namespace axonn {

// Sets the number of compute threads: OMP_NUM_THREADS, or the node's cores divided by its ranks.
// Called before the first operation on tensors.
void share_cores(const Environment& environment);

// The time, and the slowest rank's: every rank takes the same decisions. `prepare` is the caller's.
// `everyone` outlives the result.
tune::TunerHooks rank_hooks(Communicator& everyone);

// Half of LibTorch's threads, ..., one: of the rank that has most, and so the same on all ranks,
// which run each of them together. Smaller and larger segments than comm's own; smaller ones only,
// where ranks share memory. Rows of a product's parts. Collective.
coconet::RunAxes axes_to_try(Communicator& everyone);

// The processor, how many of them, and ranks and threads on them: elsewhere, others are faster.
std::string machine_name(int local_ranks);

}  // namespace axonn
