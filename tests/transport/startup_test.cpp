// How ranks over TCP learn of their job and of each other.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "transport/mpi_family.hpp"
#include "transport/startup/meeting_place.hpp"
#include "transport/startup/slurm_step.hpp"
#include "transport/startup/tcp_launch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, std::string>> all) : Variables(std::vector(all)) {}
  explicit Variables(std::vector<std::pair<const char*, std::string>> all) : all_(std::move(all)) {
    for (const auto& [name, value] : all_) setenv(name, value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : all_) unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, std::string>> all_;
};

void expect_place(Launcher launcher, int rank, int ranks) {
  const auto place = launched_place();
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->launcher, launcher);
  EXPECT_EQ(place->rank, rank);
  EXPECT_EQ(place->ranks, ranks);
  EXPECT_EQ(launched_rank(), rank);
}

TEST(Launch, TellsWhoStartedThisProcess) {
  EXPECT_FALSE(launched());
  const Variables tcp{{"AXONN_TRANSPORT", "tcp"}};
  {
    const Variables pmi{{"PMI_RANK", "5"}, {"PMI_SIZE", "9"}};
    expect_place(Launcher::pmi, 5, 9);
  }
  {
    const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "6"}, {"OMPI_COMM_WORLD_SIZE", "8"}};
    expect_place(Launcher::open_mpi, 6, 8);
  }
  const Variables slurm{{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  expect_place(Launcher::slurm, 2, 4);
  const Variables ranks{{"RANK", "1"}, {"WORLD_SIZE", "3"}};
  expect_place(Launcher::ranks, 1, 3);
}

TEST(Launch, TellsTheFirstRankOfAHost) {
  EXPECT_TRUE(launched_first_of_host()) << "without a launcher";
  const Variables tcp{{"AXONN_TRANSPORT", "tcp"}};
  const Variables ranks{{"RANK", "5"}, {"WORLD_SIZE", "8"}};
  EXPECT_TRUE(launched_first_of_host()) << "the launcher does not tell";
  for (const char* local_rank : {"0", "1"}) {
    const Variables local{{"LOCAL_RANK", local_rank}};
    EXPECT_EQ(launched_first_of_host(), *local_rank == '0');
    EXPECT_EQ(launched_place()->local_rank, *local_rank - '0');
  }
}

// srun starts Hydra's and mpirun's daemons, and what they start inherits Slurm's variables.
TEST(Launch, TheInnerLauncherCounts) {
  const Variables tcp{{"AXONN_TRANSPORT", "tcp"}};
  const Variables daemon{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}};
  {
    const Variables hydra{{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}};
    expect_place(Launcher::pmi, 5, 8);
  }
  {
    const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "8"}};
    expect_place(Launcher::open_mpi, 1, 8);
  }
  const Variables srun_pmi2{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  expect_place(Launcher::slurm, 1, 2);
}

TEST(Launch, TheMpiOfThisBuildDecides) {
  using Launch = std::vector<std::pair<const char*, std::string>>;
  const Launch mpirun{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "3"}};
  const Launch srun_pmix{{"PMIX_RANK", "3"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const Launch hydra{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}, {"MPI_LOCALRANKID", "1"}};
  const Launch hydra_port{{"PMI_ID", "3"}, {"PMI_SIZE", "4"}, {"PMI_PORT", "host:1"}};
  const Launch srun_pmi2{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const Launch pals{{"PALS_RANKID", "3"}, {"PALS_LOCAL_RANKID", "1"}, {"PALS_APID", "1.0"}, {"PMI_SIZE", "4"}};
  const Launch cray_shasta{{"PALS_RANKID", "3"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const std::vector<Launch> open_mpi{mpirun, srun_pmix};
  const std::vector<Launch> mpich{hydra, hydra_port, srun_pmi2, pals, cray_shasta, srun_pmix};
  for (const auto& variables : built_mpi() == MpiFamily::mpich ? mpich : open_mpi) {
    const Variables launcher{variables};
    if (built_mpi() == MpiFamily::none) {
      EXPECT_NE(launched_place()->launcher, Launcher::mpi);
    } else {
      expect_place(Launcher::mpi, 3, 4);
      const bool tells = std::ranges::any_of(variables, [](const auto& one) {
        return std::string_view(one.first).find("LOCAL") != std::string_view::npos;
      });
      EXPECT_EQ(launched_first_of_host(), !tells);
      const Variables ranks{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
      expect_place(Launcher::mpi, 3, 4);
      const Variables torchrun{{"TORCHELASTIC_RUN_ID", "none"}};
      expect_place(Launcher::ranks, 1, 2);
    }
  }
  if (built_mpi() == MpiFamily::open_mpi) {
    const Variables pmi{{"PMI_RANK", "5"}, {"PMI_SIZE", "9"}};
    expect_place(Launcher::pmi, 5, 9);
    const Variables mpi{{"AXONN_TRANSPORT", "mpi"}};
    expect_place(Launcher::mpi, 0, 9);
  }
}

TEST(Launch, RefusesAnUnknownTransport) {
  const Variables transport{{"AXONN_TRANSPORT", "udp"}};
  EXPECT_USER_ERROR(launched_place(), "AXONN_TRANSPORT is mpi or tcp, got udp");
}

TEST(Launch, OneTaskOfSlurmIsNoJob) {
  const Variables slurm{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  EXPECT_FALSE(launched());
}

TEST(Launch, RefusesVariablesThatContradict) {
  {
    const Variables ranks{{"RANK", "3"}, {"WORLD_SIZE", "3"}};
    EXPECT_USER_ERROR(launched_place(), "RANK must be in 0 .. WORLD_SIZE-1, got RANK=3 and WORLD_SIZE=3");
    EXPECT_EQ(launched_rank(), 0);
  }
  {
    const Variables ranks{{"RANK", "3"}};
    EXPECT_USER_ERROR(launched_place(), "only RANK is set");
  }
  const Variables slurm{{"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_USER_ERROR(launched_place(), "this is one of 4 processes (SLURM_STEP_NUM_TASKS), and SLURM_PROCID");
}

TEST(TcpLaunch, SlurmSaysWhereRanksMeet) {
  const Variables slurm{{"SLURM_PROCID", "5"},
                        {"SLURM_STEP_NUM_TASKS", "8"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3,1"},
                        {"SLURM_STEP_NODELIST", "gpu[07-09],login"},
                        {"SLURM_JOB_ID", "4711"},
                        {"SLURM_STEP_ID", "0"}};
  const auto launch = tcp_launch();
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->ranks, 8);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->local_ranks, 3);
  const auto point = launch->meeting_place->find();
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->hosts, std::vector<std::string>{"gpu07"});
  EXPECT_EQ(point->port, slurm::port_of(4711, 0));
  EXPECT_TRUE(launch->meeting_place->wanted().hosts.empty()) << "rank 0 listens on every interface";
  const Variables batch{{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
  EXPECT_EQ(tcp_launch()->meeting_place->find()->hosts, (std::vector<std::string>{"gpu07", "10.0.0.7"}));
  const Variables named{{"MASTER_ADDR", "login"}, {"MASTER_PORT", "29"}, {"AXONN_SECRET", "s"}};
  EXPECT_EQ(tcp_launch()->meeting_place->find()->hosts, std::vector<std::string>{"login"});
  EXPECT_EQ(tcp_launch()->meeting_place->find()->port, 29);
  EXPECT_EQ(tcp_launch()->meeting_place->find()->secret, "s");
}

TEST(TcpLaunch, RanksOfOneNodeMeetOnItsLoopback) {
  const Variables slurm{{"SLURM_PROCID", "1"},
                        {"SLURM_STEP_NUM_TASKS", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2"},
                        {"SLURM_STEP_NODELIST", "gpu07"}};
  EXPECT_EQ(tcp_launch()->meeting_place->wanted().hosts, std::vector<std::string>{"127.0.0.1"});
  EXPECT_EQ(tcp_launch()->local_ranks, 2);
}

TEST(TcpLaunch, RefusesProcessesThatCannotMeet) {
  const Variables tcp{{"AXONN_TRANSPORT", "tcp"}};
  {
    const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_SIZE", "9"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
    EXPECT_USER_ERROR(tcp_launch(), "this is process 5 of 9 that Open MPI's mpirun started", "AXONN_INIT_FILE");
    const Variables named{{"MASTER_ADDR", "login"}};
    EXPECT_EQ(tcp_launch()->local_rank, 2);
    EXPECT_EQ(tcp_launch()->local_ranks, 3);
  }
  const Variables pmi{{"PMI_RANK", "5"}, {"PMI_SIZE", "9"}};
  EXPECT_USER_ERROR(tcp_launch(), "this is process 5 of 9", "AXONN_INIT_FILE");
  const Variables named{{"MASTER_ADDR", "login"}};
  EXPECT_EQ(tcp_launch()->ranks, 9);
}

TEST(Slurm, ReadsItsLists) {
  for (const auto& [list, host] :
       std::vector<std::pair<std::string, std::string>>{{"node1", "node1"},
                                                        {"node1,node2", "node1"},
                                                        {"node[003-005,7],login1", "node003"},
                                                        {"node[7]", "node7"},
                                                        {"r[2-3]n[4,6]-ib", "r2n4-ib"},
                                                        {"", ""},
                                                        {"node[", "node"}})
    EXPECT_EQ(slurm::first_host(list), host) << list;
  EXPECT_EQ(slurm::tasks_per_node("4(x2),3"), (std::vector<int>{4, 4, 3}));
  EXPECT_EQ(slurm::tasks_per_node("1"), std::vector<int>{1});
  for (const char* wrong : {"4(", "4(x", "4(x2", "x", "4;3", "4(y2)", "-1"})
    EXPECT_USER_ERROR(slurm::tasks_per_node(wrong), "SLURM_STEP_TASKS_PER_NODE", wrong);
}

TEST(Slurm, GivesEveryStepAPort) {
  for (int job = 0; job < 1000; ++job) {
    EXPECT_GE(slurm::port_of(job, 0), 20'000);
    EXPECT_LT(slurm::port_of(job, 0), 32'000);
    EXPECT_NE(slurm::port_of(job, 0), slurm::port_of(job, 1)) << job;
    EXPECT_NE(slurm::port_of(job, 0), slurm::port_of(job + 1, 0)) << job;
  }
}

TEST(MeetingPoint, IsReadOnlyWhole) {
  const MeetingPoint point{{"host.example", "10.0.0.1", "fe80::1"}, 4321, "00ff"};
  const std::string text = text_of(point);
  const auto read = parse_meeting_point(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->hosts, point.hosts);
  EXPECT_EQ(read->port, point.port);
  EXPECT_EQ(read->secret, point.secret);
  for (size_t i = 0; i + 1 < text.size(); ++i) EXPECT_FALSE(parse_meeting_point(text.substr(0, i))) << i;
  for (const char* other :
       {"", "axonn job 1\nport 65536\nhost a\nend\n", "axonn job 1\nport 1\nhost \nend\n",
        "axonn job 2\nport 1\nhost a\nend\n", "axonn job 1\nport x\nhost a\nend\n", "axonn job 1\nport 1\nend\n"})
    EXPECT_FALSE(parse_meeting_point(other)) << other;
}

TEST(MeetingPlace, IsAFileForItsUserOnly) {
  const fs::path folder = fs::path(testing::TempDir()) / "startup_test";
  fs::remove_all(folder);
  fs::create_directory(folder);
  const std::string path = folder / "job";
  const auto zero = meet_in_file(path), other = meet_in_file(path);
  EXPECT_FALSE(other->find());
  std::ofstream(path) << "of another program";
  EXPECT_FALSE(other->find());
  EXPECT_EQ(zero->wanted().port, 0);
  zero->publish(4321);
  const auto point = other->find();
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->port, 4321);
  EXPECT_EQ(point->secret, zero->wanted().secret);
  EXPECT_EQ(point->secret.size(), 32U);
  EXPECT_NE(point->secret, other->wanted().secret);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  zero->close();
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_THROW(meet_in_file(folder / "none" / "job")->publish(1), BackendError);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const char* never_ends : {path.c_str(), "/dev/zero"}) EXPECT_FALSE(meet_in_file(never_ends)->find());
}

// As under torchrun: the agent is another process that listens there.
TEST(MeetingPlace, IsTheStoreOfAnAgent) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const Variables torchrun{{"RANK", "1"},
                           {"WORLD_SIZE", "2"},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(agent->getPort())},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RUN_ID", "none"},
                           {"TORCHELASTIC_RESTART_COUNT", "0"}};
  const auto zero = tcp_launch(), one = tcp_launch();
  EXPECT_EQ(zero->meeting_place->wanted().port, 0);
  EXPECT_FALSE(one->meeting_place->find());
  zero->meeting_place->publish(4321);
  const auto point = one->meeting_place->find();
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->port, 4321);
  EXPECT_EQ(point->secret, zero->meeting_place->wanted().secret);
  const Variables restarted{{"TORCHELASTIC_RESTART_COUNT", "1"}};
  EXPECT_FALSE(tcp_launch()->meeting_place->find()) << "of the job before it was restarted";
}

}  // namespace
}  // namespace axonn
