#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "transport/tcp_ranks.hpp"
#include "transport/tcp/tcp_door.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

// This child process closes all files but the three standard ones, may have this many in all, and
// ends with the test.
void limit_files(rlim_t now, rlim_t at_most) {
  const rlimit limit{now, at_most};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::close_range(3, ~0U, 0) != 0 || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(99);
}

// An IPv4 address of this host that is not a loopback one; empty when it has none.
std::string network_address() {
  ifaddrs* list = nullptr;
  std::string found;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr && found.empty(); entry = entry->ifa_next) {
    const bool right = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                       (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (right) found = ::inet_ntoa(reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr);
  }
  ::freeifaddrs(list);
  return found;
}

TEST(TcpStartUp, MissingRankIsNamedWhenPatienceEnds) {
  const int port = free_port();
  std::string late;
  std::thread rank_1([&] { late = error_of([&] { make(1, 3, port, 300ms); }); });
  const std::string error = error_of([&] { make(0, 3, port, 300ms); });
  rank_1.join();
  EXPECT_EQ(error, "rank 0 of 3 waited 0.3 s in vain for ranks 2; see if they were started, and their own last lines");
  EXPECT_NE(late.find("rank 1 of 3 reached rank 0"), std::string::npos) << late;
}

TEST(TcpStartUp, RankThatWaitsNoticesTheEndOfRank0) {
  const int port = free_port();
  std::string late;
  std::thread rank_1([&] { late = error_of([&] { make(1, 3, port, 10s); }); });
  error_of([&] { make(0, 3, port, 300ms); });
  rank_1.join();
  EXPECT_NE(late.find("but it has ended since: see its own message"), std::string::npos) << late;
}

TEST(TcpStartUp, AbsentRank0IsAnErrorThatSaysWhere) {
  const int port = free_port();
  const std::string error = error_of([&] { make(1, 2, port, 200ms); });
  EXPECT_EQ(error, "rank 1 of 2 could not reach rank 0 at 127.0.0.1 port " + std::to_string(port) +
                       " in 0.2 s: Connection refused; need MASTER_ADDR and MASTER_PORT of a running rank 0");
}

TEST(TcpStartUp, PortInUseIsAnErrorThatSaysWhatToDo) {
  const Descriptor occupant(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = loopback_address(0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(occupant.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(occupant.get(), 1), 0);
  ASSERT_EQ(::getsockname(occupant.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string error = error_of([&] { make(0, 2, ntohs(address.sin_port)); });
  EXPECT_NE(error.find("Address already in use; set MASTER_PORT to a free port"), std::string::npos) << error;
}

TEST(TcpStartUp, StrangersAtThePortAreSentAway) {
  const int port = free_port();
  std::thread stranger([&] {
    const Descriptor socket = knock(port);
    const std::string words(100, 'x');
    ::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    char answer = 0;
    EXPECT_LE(::recv(socket.get(), &answer, 1, 0), 0);
    make(1, 2, port);
  });
  EXPECT_NO_THROW(make(0, 2, port));
  stranger.join();
}

TEST(TcpStartUp, SilentConnectionsKeepNobodyOut) {
  const int port = free_port();
  std::vector<Descriptor> silent;
  std::thread others([&] {
    for (int i = 0; i < 100; ++i) silent.push_back(knock(port));
    EXPECT_NO_THROW(make(1, 2, port, 10s));
  });
  EXPECT_NO_THROW(make(0, 2, port, 10s));
  others.join();
}

// Connections that it may not accept yet keep nobody busy who watches it.
TEST(TcpStartUp, FullDoorIsNotReadableUntilItMayAcceptAgain) {
  std::string problem;
  tcp::Door door(tcp::listen_at(tcp::resolve(kLoopback, 0, problem).front()), tcp::secret_of("s"));
  const auto readable = [&](int milliseconds) {
    pollfd entry{door.fd(), POLLIN, 0};
    return ::poll(&entry, 1, milliseconds) > 0;
  };
  std::vector<Descriptor> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(knock(door.port()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(door.next());
    EXPECT_FALSE(readable(0)) << "turn " << i;
    EXPECT_TRUE(readable(5000)) << "turn " << i;  // the oldest may be closed now
  }
  const tcp::Greeting words{.secret = tcp::secret_of("s"), .rank = 1, .ranks = 2};
  ::send(silent.back().get(), &words, sizeof words, MSG_NOSIGNAL);
  for (const tcp::Deadline deadline(10s); !deadline.passed();) {
    if (const auto arrival = door.next()) {
      EXPECT_EQ(arrival->greeting.rank, 1);
      return;
    }
    readable(100);
  }
  FAIL() << "nobody let the rank in";
}

TEST(TcpStartUp, ProcessWithAnotherSecretIsRefusedAndTheJobGoesOn) {
  const int port = free_port();
  std::thread others([&] {
    TcpOptions stranger = job(1, 3, port);  // not even of the same size
    stranger.meeting_place = meet_at(kLoopback, port, "t");
    const std::string error = error_of<UserError>([&] { make_tcp_transport(stranger); });
    EXPECT_NE(error.find("different values of AXONN_SECRET"), std::string::npos) << error;
    EXPECT_NO_THROW(make(1, 2, port));
  });
  EXPECT_NO_THROW(make(0, 2, port));
  others.join();
}

// A file names a port that is now another job's. That job is not asked again and again.
TEST(TcpStartUp, FileOfAnEarlierJobIsTriedOnce) {
  const std::string path = testing::TempDir() + "axonn-earlier-job";
  const auto host = loopback_address(0);
  tcp::SocketAddress address;
  std::memcpy(&address.storage, &host, sizeof host);
  address.size = sizeof host;
  tcp::Door another(tcp::listen_at(address), tcp::secret_of("another job"));
  std::ofstream(path) << text_of({{kLoopback}, another.port(), "an earlier job"});
  const auto in_file = [&](int rank) {
    return TcpOptions{.rank = rank, .ranks = 2, .meeting_place = meet_in_file(path), .patience = 10s};
  };
  testing::internal::CaptureStderr();
  std::thread rank_1([&] { EXPECT_NO_THROW(make_tcp_transport(in_file(1))); });
  for (const tcp::Deadline deadline(500ms); !deadline.passed(); std::this_thread::sleep_for(1ms)) another.next();
  EXPECT_NO_THROW(make_tcp_transport(in_file(0)));
  rank_1.join();
  const std::string log = testing::internal::GetCapturedStderr(), line = "was refused";
  const size_t first = log.find(line);
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(line, first + 1), std::string::npos) << log;
}

TEST(TcpStartUp, RanksThatDisagreeAboutTheJobAreAUserErrorOnBothSides) {
  const int port = free_port();
  std::string theirs;
  std::thread other([&] { theirs = error_of<UserError>([&] { make(1, 3, port); }); });
  const std::string ours = error_of<UserError>([&] { make(0, 2, port); });
  other.join();
  EXPECT_NE(ours.find("RANK 1 and WORLD_SIZE 3 came from 127.0.0.1 to rank 0 of a job of 2"), std::string::npos)
      << ours;
  EXPECT_NE(theirs.find("whose job has WORLD_SIZE 2"), std::string::npos) << theirs;
  EXPECT_THROW(make(2, 2, port), UserError);
  EXPECT_THROW(make(0, 2, 0), UserError);
}

TEST(TcpStartUp, TwoProcessesOfOneRankAreAUserError) {
  const int port = free_port();
  std::vector<std::thread> twins;
  std::vector<std::string> errors(2);
  for (std::string& error : errors) twins.emplace_back([&] { error = error_of<Error>([&] { make(1, 3, port); }); });
  const std::string ours = error_of<UserError>([&] { make(0, 3, port); });
  for (auto& twin : twins) twin.join();
  EXPECT_NE(ours.find("two processes say that they are rank 1 of 3"), std::string::npos) << ours;
  EXPECT_TRUE(std::ranges::any_of(
      errors, [](const std::string& error) { return error.find("is there already") != std::string::npos; }))
      << errors[0] << '\n'
      << errors[1];
}

TEST(TcpStartUp, FullTableOfFilesIsReportedAtOnce) {
  const int port = free_port();
  const pid_t child = ::fork();
  if (child == 0) {
    limit_files(6, 6);  // room for the listener and two of epoll
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = error_of([&] { make(0, 2, port, 10s); });
    const bool right = error.find("accept: Too many open files") != std::string::npos &&
                       error.find("give it more with 'ulimit -n'") != std::string::npos &&
                       std::chrono::steady_clock::now() - begin < 5s;
    if (!right) std::fprintf(stderr, "%s\n", error.c_str());
    ::_exit(right ? 0 : 1);
  }
  // The child may end while this process still connects to it.
  int status = -1;
  const sockaddr_in address = loopback_address(port);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const Descriptor guest(::socket(AF_INET, SOCK_STREAM, 0));
    ::connect(guest.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(status, 0);
}

// It can neither accept nor make connections, says so, and does not blame the other rank.
TEST(TcpStartUp, FullTableOfFilesEndsARunningJob) {
  for (const bool sends : {true, false}) {
    const int port = free_port();
    const pid_t child = ::fork();
    if (child == 0) {
      const auto transport = make(0, 2, port, 10s);
      const rlimit nothing_more{3, 3};
      EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &nothing_more), 0);
      int value = 0;
      const std::string error = error_of([&] {
        finish(*transport,
               sends ? transport->send(1, 4, &value, sizeof value) : transport->receive(1, 4, &value, sizeof value));
      });
      transport->abandon(error);  // as the progress engine does
      const std::string call = sends ? "socket" : "accept";
      const std::string later = error_of([&] { finish(*transport, transport->receive(1, 9, &value, sizeof value)); });
      const bool right =
          error.starts_with(call + ": Too many open files; this process may have 3 open files") && later == error;
      if (!right) std::fprintf(stderr, "%s\n", error.c_str());
      ::_exit(right ? 0 : 1);
    }
    const std::string error = error_of([&] {
      const auto transport = make(1, 2, port, 10s);
      std::this_thread::sleep_for(500ms);  // rank 0 would accept a connection before its table is full
      int value = 0;
      finish(*transport,
             sends ? transport->receive(0, 4, &value, sizeof value) : transport->send(0, 4, &value, sizeof value));
      finish(*transport, transport->receive(0, 4, &value, sizeof value));
    });
    EXPECT_NE(error.find("rank 0 (127.0.0.1) gave up on the job"), std::string::npos) << error;
    EXPECT_EQ(exit_status(child), 0);
  }
}

// Sends to and receives from rank +- 1, 2, 4, ..., as a barrier does.
void exchange(Transport& transport) {
  for (int distance = 1; distance < transport.ranks(); distance *= 2) {
    const int to = (transport.rank() + distance) % transport.ranks();
    const int from = (transport.rank() - distance + transport.ranks()) % transport.ranks();
    int got = -1;
    const int mine = transport.rank();
    const auto receive = transport.receive(from, 4, &got, sizeof got);
    const auto send = transport.send(to, 4, &mine, sizeof mine);
    finish(transport, send);
    finish(transport, receive);
    EXPECT_EQ(got, from);
  }
}

TEST(TcpStartUp, ManyRanksNeedFewFilesAndARaisedSoftLimit) {
  constexpr int kRanks = 48;
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    limit_files(16, 28);  // 7 of its own, at most 5 in the tree and 12 to exchange messages
    const std::string error = error_of<Error>([&] { exchange(*make(rank, kRanks, port)); });
    if (error != "no error") std::fprintf(stderr, "rank %d: %s\n", rank, error.c_str());
    ::_exit(error == "no error" && !testing::Test::HasFailure() ? 0 : 1);
  }
  for (const pid_t child : children) EXPECT_EQ(exit_status(child), 0);
}

TEST(TcpStartUp, Rank0SendsTheTableOnlyToItsChildren) {
  constexpr int kRanks = 24;
  const int port = free_port();
  std::vector<size_t> sent(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const TcpMesh mesh = connect_tcp_mesh(job(rank, kRanks, port));
      sent[static_cast<size_t>(rank)] = mesh.bytes_sent;
      EXPECT_EQ(mesh.addresses.size(), size_t{kRanks});
    });
  }
  for (auto& thread : threads) thread.join();
  const size_t table = kRanks * sizeof(tcp::PackedAddress);
  EXPECT_EQ(sent[0], 4 * (table + sizeof(tcp::Greeting)) + (kRanks - 1) * sizeof(tcp::Answer));
  EXPECT_EQ(sent[kRanks - 1], sizeof(tcp::Greeting));
}

// On a network, a job without a secret is worth a warning.
TEST(TcpStartUp, RanksListenOnlyWhereTheyReachRank0) {
  const std::string address = network_address();
  if (address.empty()) GTEST_SKIP() << "this host has no address but loopback ones";
  for (const std::string& where : {std::string(kLoopback), address}) {
    const int port = free_port();
    TcpOptions first = job(0, 2, port), second = job(1, 2, port);
    first.meeting_place = second.meeting_place = meet_at(where, port, "");
    testing::internal::CaptureStderr();
    std::thread rank_1([&] {
      const TcpMesh mesh = connect_tcp_mesh(second);
      const std::string other = where == kLoopback ? address : kLoopback;
      std::string problem;
      for (const auto& target : tcp::resolve(other, mesh.door->port(), problem)) {
        EXPECT_FALSE(tcp::connect_once(target, tcp::Deadline(5s), problem).open()) << other;
      }
    });
    EXPECT_NO_THROW(connect_tcp_mesh(first));
    rank_1.join();
    const bool warned =
        testing::internal::GetCapturedStderr().find("this job has no AXONN_SECRET") != std::string::npos;
    EXPECT_EQ(warned, where == address);
  }
}

// Rank 0 listens on every interface, as with an init file, and the others look for it.
class AnyInterface final : public MeetingPlace {
 public:
  explicit AnyInterface(std::vector<std::string> hosts_of_ranks) : hosts_(std::move(hosts_of_ranks)) {}

  MeetingPoint wanted() const override { return {.hosts = {}, .port = 0, .secret = "s"}; }
  void publish(int port) override { port_ = port; }
  std::optional<MeetingPoint> find() override { return std::nullopt; }
  std::string name() const override { return "a test"; }
  std::string need() const override { return ""; }

  std::shared_ptr<MeetingPlace> for_rank(size_t rank) {
    return rank == 0 ? std::shared_ptr<MeetingPlace>(this, [](auto*) {}) : std::make_shared<Other>(*this, rank);
  }

 private:
  struct Other final : MeetingPlace {
    Other(AnyInterface& first, size_t mine) : place(first), rank(mine) {}
    MeetingPoint wanted() const override { return place.wanted(); }
    void publish(int) override {}
    std::optional<MeetingPoint> find() override {
      if (place.port_ == 0) return std::nullopt;
      return MeetingPoint{{place.hosts_[rank]}, place.port_, "s"};
    }
    std::string name() const override { return place.name(); }
    std::string need() const override { return ""; }

    AnyInterface& place;
    size_t rank;
  };

  const std::vector<std::string> hosts_;
  std::atomic<int> port_{0};
};

bool has_ipv6_loopback() {
  std::string problem;
  const auto addresses = tcp::resolve("::1", 0, problem);
  const Descriptor socket(::socket(AF_INET6, SOCK_STREAM, 0));
  return !addresses.empty() && ::bind(socket.get(), addresses[0].get(), addresses[0].size) == 0;
}

// An init file names the addresses of both kinds that rank 0's host has.
TEST(TcpStartUp, RanksMeetOverIPv6AndIPv4) {
  if (!has_ipv6_loopback()) GTEST_SKIP() << "this host has no IPv6";
  AnyInterface place({"", "::1", "127.0.0.1", "::1"});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_NO_THROW(exchange(*make_tcp_transport(
          {.rank = rank, .ranks = 4, .meeting_place = place.for_rank(static_cast<size_t>(rank)), .patience = 10s})));
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace axonn
