// Preloaded, it is an MPI that lets only one thread call it.
#include <mpi.h>

extern "C" __attribute__((visibility("default"))) int MPI_Init_thread(int* count, char*** words, int required,
                                                                      int* provided) {
  const int status = PMPI_Init_thread(count, words, required, provided);
  *provided = MPI_THREAD_SINGLE;
  return status;
}
