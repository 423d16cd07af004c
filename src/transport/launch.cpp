#include "axonn/transport/launch.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include <sys/random.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "transport/mpi_family.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.environment";

std::optional<int> first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto value = env::get_int(name)) return value;
  return std::nullopt;
}

std::optional<LaunchedRank> by_ranks() {
  const auto rank = env::get_int("RANK"), ranks = env::get_int("WORLD_SIZE");
  AXONN_CHECK(rank.has_value() == ranks.has_value(), kWhere, "RANK and WORLD_SIZE go together; only ",
              rank ? "RANK" : "WORLD_SIZE", " is set");
  if (!rank) return std::nullopt;
  AXONN_CHECK(*ranks >= 1 && *rank >= 0 && *rank < *ranks, kWhere,
              "RANK must be in 0 .. WORLD_SIZE-1, got RANK=", *rank, " and WORLD_SIZE=", *ranks);
  return LaunchedRank{Launcher::ranks, *rank, *ranks, env::get_int("LOCAL_RANK")};
}

std::optional<LaunchedRank> by_several(Launcher launcher, const char* rank_name, const char* ranks_name,
                                       std::initializer_list<const char*> local_rank_names) {
  const auto ranks = env::get_int(ranks_name);
  if (!ranks || *ranks == 1) return std::nullopt;
  const auto rank = env::get_int(rank_name);
  AXONN_CHECK(rank && *rank >= 0 && *rank < *ranks, kWhere, "this is one of ", *ranks, " processes (", ranks_name,
              "), and ", rank_name, " does not say which; start them with a launcher that sets both");
  return LaunchedRank{launcher, *rank, *ranks, first_of(local_rank_names)};
}

std::optional<int> rank_by_mpi() {
  switch (built_mpi()) {
    case MpiFamily::open_mpi:
      return first_of({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
    case MpiFamily::mpich:
      return first_of({"PMI_RANK", "PMI_ID", "PALS_RANKID", "PMIX_RANK"});
    case MpiFamily::none:
      break;
  }
  return std::nullopt;
}

std::optional<LaunchedRank> by_mpi() {
  const auto transport = env::get("AXONN_TRANSPORT");
  AXONN_CHECK(!transport || *transport == "mpi" || *transport == "tcp", kWhere, "AXONN_TRANSPORT is mpi or tcp, got ",
              *transport, "; unset it to follow the launcher");
  if (transport == "tcp") return std::nullopt;
  const auto rank = rank_by_mpi();
  if (!rank && transport != "mpi") return std::nullopt;
  return LaunchedRank{Launcher::mpi, rank.value_or(0),
                      first_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}).value_or(0),
                      first_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID",
                                "SLURM_LOCALID"})};
}

// Rank 0 without a launcher, or if its variables contradict each other.
LaunchedRank place_or_alone() {
  try {
    return launched_place().value_or(LaunchedRank());
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace

std::optional<LaunchedRank> launched_place() {
  if (const auto place = env::get("TORCHELASTIC_RUN_ID") ? by_ranks() : std::nullopt) return place;
  if (const auto place = by_mpi()) return place;
  if (const auto place = by_ranks()) return place;
  const auto slurm = by_several(Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_LOCALID"});
  for (const auto& inner :
       {by_several(Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"OMPI_COMM_WORLD_LOCAL_RANK"}),
        by_several(Launcher::pmi, "PMI_RANK", "PMI_SIZE", {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"})})
    if (inner && !(slurm && slurm->rank == inner->rank && slurm->ranks == inner->ranks)) return inner;
  return slurm;
}

bool launched() { return launched_place().has_value(); }

int launched_rank() { return place_or_alone().rank; }
bool launched_first_of_host() { return place_or_alone().local_rank.value_or(0) == 0; }

std::string make_secret() {
  std::array<unsigned char, 16> bits{};
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size()))
    throw BackendError(kWhere, std::string("no random bits for the job's secret: ") + std::strerror(errno));
  std::string text;
  for (const unsigned char byte : bits) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace axonn
