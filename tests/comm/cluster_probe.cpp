// cluster_probe BYTES: every rank sends BYTES to every other rank and checks the received bytes.
// Rank 0 prints the number of ranks and hosts.
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0, length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int bytes = argc > 1 ? std::atoi(argv[1]) : 0;

  std::vector<char> sent(static_cast<size_t>(ranks) * bytes, static_cast<char>(rank + 1)), got(sent.size());
  MPI_Alltoall(sent.data(), bytes, MPI_CHAR, got.data(), bytes, MPI_CHAR, MPI_COMM_WORLD);
  long wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != static_cast<char>(i / bytes + 1);

  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  MPI_Get_processor_name(name.data(), &length);
  std::vector<char> names(name.size() * ranks);
  MPI_Gather(name.data(), name.size(), MPI_CHAR, names.data(), name.size(), MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    std::set<std::string> hosts;
    for (int i = 0; i < ranks; ++i) hosts.insert(&names[i * name.size()]);
    std::printf("%d ranks on %zu hosts, %ld wrong bytes\n", ranks, hosts.size(), wrong);
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
