#include "axonn/comm/launch.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/random.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.environment";

std::optional<LaunchedRank> by_ranks() {
  const auto rank = env::get_int("RANK"), ranks = env::get_int("WORLD_SIZE");
  AXONN_CHECK(rank.has_value() == ranks.has_value(), kWhere, "RANK and WORLD_SIZE go together; only ",
              rank ? "RANK" : "WORLD_SIZE", " is set");
  if (!rank) return std::nullopt;
  AXONN_CHECK(*ranks >= 1 && *rank >= 0 && *rank < *ranks, kWhere,
              "RANK must be in 0 .. WORLD_SIZE-1, got RANK=", *rank, " and WORLD_SIZE=", *ranks);
  return LaunchedRank{Launcher::ranks, *rank, *ranks};
}

std::optional<LaunchedRank> by_several(Launcher launcher, const char* rank_name, const char* ranks_name) {
  const auto ranks = env::get_int(ranks_name);
  if (!ranks || *ranks == 1) return std::nullopt;
  const auto rank = env::get_int(rank_name);
  AXONN_CHECK(rank && *rank >= 0 && *rank < *ranks, kWhere, "this is one of ", *ranks, " processes (", ranks_name,
              "), and ", rank_name, " does not say which; start them with a launcher that sets both");
  return LaunchedRank{launcher, *rank, *ranks};
}

}  // namespace

std::optional<LaunchedRank> launched_place() {
  if (launched_by_mpi()) return LaunchedRank{Launcher::mpi, env::get_int("PMIX_RANK").value_or(0), 1};
  if (const auto place = by_ranks()) return place;
  if (const auto place = by_several(Launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")) return place;
  return by_several(Launcher::pmi, "PMI_RANK", "PMI_SIZE");
}

bool launched_by_mpi() { return env::get("OMPI_COMM_WORLD_SIZE") || env::get("PMIX_RANK"); }

bool launched() { return launched_place().has_value(); }

int launched_rank() {
  try {
    const auto place = launched_place();
    return place ? place->rank : 0;
  } catch (const UserError&) {
    return 0;
  }
}

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
