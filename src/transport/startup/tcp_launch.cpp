#include "transport/startup/tcp_launch.hpp"

#include <string>
#include <utility>

#include "axonn/transport/launch.hpp"
#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "transport/startup/slurm_step.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.environment";
constexpr int kDefaultPort = 29'500;

std::string secret() { return env::get("AXONN_SECRET").value_or(""); }
int master_port() { return env::get_int("MASTER_PORT").value_or(kDefaultPort); }

// A place that the user named; it comes before what a launcher implies.
std::unique_ptr<MeetingPlace> named_place() {
  if (auto file = env::get("AXONN_INIT_FILE")) return meet_in_file(*std::move(file));
  if (auto host = env::get("MASTER_ADDR")) return meet_at(*std::move(host), master_port(), secret());
  return nullptr;
}

// The agent itself listens at MASTER_PORT.
std::unique_ptr<MeetingPlace> agent_store() {
  if (env::get("TORCHELASTIC_USE_AGENT_STORE") != "True") return nullptr;
  return meet_in_agent_store(env::get("MASTER_ADDR").value_or("127.0.0.1"), master_port(),
                             "axonn/" + env::get("TORCHELASTIC_RUN_ID").value_or("") + "/" +
                                 env::get("TORCHELASTIC_RESTART_COUNT").value_or("0"));
}

TcpLaunch by_ranks(const LaunchedRank& place) {
  TcpLaunch launch{.rank = place.rank,
                   .ranks = place.ranks,
                   .local_rank = place.local_rank.value_or(place.rank),
                   .local_ranks = env::get_int("LOCAL_WORLD_SIZE").value_or(place.ranks),
                   .meeting_place = agent_store()};
  if (!launch.meeting_place) launch.meeting_place = named_place();
  if (!launch.meeting_place) launch.meeting_place = meet_at("127.0.0.1", master_port(), secret());
  return launch;
}

// Rank 0 is on the first node, unless the user distributes tasks in another order. If names of
// nodes have no address, the host of a batch script may serve: it is the first node too.
std::unique_ptr<MeetingPlace> slurm_place(size_t nodes) {
  const int port = slurm::port_of(env::get_int("SLURM_JOB_ID").value_or(0), env::get_int("SLURM_STEP_ID").value_or(0));
  const auto list = env::get("SLURM_STEP_NODELIST");
  if (nodes <= 1 || !list) return meet_at("127.0.0.1", port, secret());
  std::vector<std::string> hosts = {slurm::first_host(*list)};
  if (auto host = env::get("SLURM_LAUNCH_NODE_IPADDR")) hosts.push_back(*std::move(host));
  return meet_at_one_of(std::move(hosts), port, secret());
}

TcpLaunch by_slurm(const LaunchedRank& place) {
  const auto tasks = slurm::tasks_per_node(env::get("SLURM_STEP_TASKS_PER_NODE").value_or(std::to_string(place.ranks)));
  const auto node = static_cast<size_t>(env::get_int("SLURM_NODEID").value_or(0));
  TcpLaunch launch{.rank = place.rank,
                   .ranks = place.ranks,
                   .local_rank = place.local_rank.value_or(place.rank),
                   .local_ranks = node < tasks.size() ? tasks[node] : place.ranks,
                   .meeting_place = named_place()};
  if (!launch.meeting_place) launch.meeting_place = slurm_place(tasks.size());
  return launch;
}

// A launcher of MPI that says nothing of where processes may meet.
TcpLaunch by_mpi_launcher(const LaunchedRank& place, const char* name, std::optional<int> local_ranks) {
  TcpLaunch launch{.rank = place.rank,
                   .ranks = place.ranks,
                   .local_rank = place.local_rank.value_or(place.rank),
                   .local_ranks = local_ranks.value_or(place.ranks),
                   .meeting_place = named_place()};
  AXONN_CHECK(launch.meeting_place, kWhere, "this is process ", place.rank, " of ", place.ranks, " that ", name,
              " started, which does not speak to the MPI of this build; build axonn with the launcher's MPI; or, to go "
              "over TCP, set AXONN_INIT_FILE to a file that all of them see, or MASTER_ADDR and MASTER_PORT to "
              "rank 0's");
  return launch;
}

}  // namespace

std::optional<TcpLaunch> tcp_launch() {
  const std::optional<LaunchedRank> place = launched_place();
  if (!place || place->ranks == 1) return std::nullopt;
  switch (place->launcher) {
    case Launcher::slurm:
      return by_slurm(*place);
    case Launcher::pmi:
      return by_mpi_launcher(*place, "a launcher with PMI_RANK and PMI_SIZE",
                             env::get_int(env::get("MPI_LOCALNRANKS") ? "MPI_LOCALNRANKS" : "PMI_LOCAL_SIZE"));
    case Launcher::open_mpi:
      return by_mpi_launcher(*place, "Open MPI's mpirun", env::get_int("OMPI_COMM_WORLD_LOCAL_SIZE"));
    case Launcher::ranks:
    case Launcher::mpi:
      break;
  }
  return by_ranks(*place);
}

}  // namespace axonn
