#pragma once

#include <cstdint>
#include <optional>
#include <string>

// This process according to a launcher's environment variables. The Environment follows them, but
// they are known before it exists.
namespace axonn {

enum class Launcher : uint8_t {
  mpi,      // one that speaks to the MPI of this build
  ranks,    // whoever sets RANK and WORLD_SIZE: torchrun, --ranks, a script
  slurm,    // srun without that MPI
  pmi,      // Hydra, PALS and others that set PMI_RANK and PMI_SIZE, without that MPI
  open_mpi  // Open MPI's mpirun, without that MPI
};

struct LaunchedRank {
  Launcher launcher = Launcher::ranks;
  int rank = 0;
  int ranks = 0;                       // 0: only MPI knows
  std::optional<int> local_rank = {};  // within its host, if the launcher tells
};

// The launcher of this process; nothing without one. MPI comes first, if AXONN_TRANSPORT is not
// tcp and the launcher speaks to the MPI of this build: Open MPI's mpirun and PMIx to Open MPI;
// Hydra, PALS, PMI-1, PMI-2 and PMIx to MPICH and its family (Cray, Intel, MVAPICH). torchrun comes
// before it, because its processes inherit the variables of an srun around it. The others follow as
// above; but where mpirun or Hydra start their daemons with srun, Slurm's variables are the
// daemon's, and theirs count. Slurm and PMI count only if they started several processes. UserError
// if variables contradict each other.
std::optional<LaunchedRank> launched_place();

// Whether any launcher started it.
bool launched();

// This process's rank according to its launcher; 0 without a launcher, or if its variables
// contradict each other.
int launched_rank();
// Whether it is the first rank of its host; also where nothing tells.
bool launched_first_of_host();

// 128 random bits as hexadecimal digits, for AXONN_SECRET: other users cannot join a job with it.
std::string make_secret();

}  // namespace axonn
