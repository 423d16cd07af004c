#pragma once

// What a launcher's environment variables say about this process. The Environment follows them, but
// they are known before it exists.
namespace axonn {

// Whether an MPI launcher (mpirun, srun --mpi=pmix) started this process.
bool launched_by_mpi();

// Whether any launcher started it: an MPI launcher, or one that sets RANK and WORLD_SIZE.
bool launched();

// This process's rank according to its launcher; 0 without a launcher.
int launched_rank();

}  // namespace axonn
