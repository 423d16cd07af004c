#pragma once

#include <cstdint>
#include <optional>
#include <string>

// This process according to a launcher's environment variables. The Environment follows them, but
// they are known before it exists.
namespace axonn {

enum class Launcher : uint8_t {
  mpi,    // mpirun, srun --mpi=pmix
  ranks,  // whoever sets RANK and WORLD_SIZE: torchrun, --ranks, a script
  slurm,  // srun without PMIx
  pmi     // Hydra and others that set PMI_RANK and PMI_SIZE
};

struct LaunchedRank {
  Launcher launcher = Launcher::ranks;
  int rank = 0;
  int ranks = 1;  // mpi: 1, as only MPI knows
};

// The first launcher above whose variables are there. Slurm and PMI count only if they started
// several processes. Nothing without a launcher. UserError if variables contradict each other.
std::optional<LaunchedRank> launched_place();

// Whether an MPI launcher (mpirun, srun --mpi=pmix) started this process.
bool launched_by_mpi();

// Whether any launcher started it.
bool launched();

// This process's rank according to its launcher; 0 without a launcher, or if its variables
// contradict each other.
int launched_rank();

// 128 random bits as hexadecimal digits, for AXONN_SECRET: other users cannot join a job with it.
std::string make_secret();

}  // namespace axonn
