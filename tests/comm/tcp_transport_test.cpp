#include "comm/transport/tcp_transport.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "comm/transport/tcp_mesh.hpp"

namespace axonn {
namespace {

using Bytes = std::vector<std::byte>;
constexpr const char* kLoopback = "127.0.0.1";

std::unique_ptr<Transport> join(int rank, int ranks, int port,
                                std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  const auto place = meet_at(kLoopback, port, "");
  return make_tcp_transport(rank, ranks, *place, patience);
}
constexpr uint32_t kIdleChannel = 998;  // receives on it never finish; testing one makes progress

// A port that was free a moment ago.
int free_port() {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// Runs `body` on one thread per rank; rethrows the first exception.
void as_ranks(int ranks, const std::function<void(Transport&)>& body) {
  const int port = free_port();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*join(rank, ranks, port));
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void finish(Transport& transport, Transport::Ticket ticket) {
  while (!transport.test(ticket)) std::this_thread::yield();
}

void barrier(Transport& transport) {
  constexpr uint32_t kChannel = 999;
  std::vector<Transport::Ticket> tickets;
  for (int peer = 0; peer < transport.ranks(); ++peer) {
    tickets.push_back(transport.send(peer, kChannel, nullptr, 0));
    tickets.push_back(transport.receive(peer, kChannel, nullptr, 0));
  }
  for (const auto ticket : tickets) finish(transport, ticket);
}

struct Message {
  uint32_t channel;
  Bytes data;
};

// The messages that `from` sends to `to`, in order. Both sides compute them without communication.
std::vector<Message> messages(int from, int to) {
  std::mt19937 random(static_cast<unsigned>(1000 * from + to));
  std::vector<Message> list(60);
  for (auto& message : list) {
    message.channel = random() % 5;
    const size_t kinds[] = {0, 1 + random() % 40, random() % 5'000, random() % 300'000};
    message.data.resize(kinds[random() % 4]);
    for (auto& byte : message.data) byte = static_cast<std::byte>(random());
  }
  list[30].data.assign(11'000'003, static_cast<std::byte>(from * 16 + to));
  return list;
}

// Runs `body` in a child process as rank 1 of 2; returns its process id.
pid_t fork_rank_1(int port, const std::function<void(Transport&)>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body(*join(1, 2, port));
    } catch (const Error&) {
      ::_exit(70);
    }
    ::_exit(0);
  }
  return child;
}

int exit_status(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const BackendError& error) {
    return error.sentence();
  }
  return "no error";
}

TEST(TcpTransport, MessagesKeepTheirOrderPerPeerAndChannel) {
  as_ranks(4, [](Transport& transport) {
    // Receives start at random moments: before, while and after their messages arrive.
    const auto idle = transport.receive(transport.rank(), kIdleChannel, nullptr, 0);
    std::mt19937 random(static_cast<unsigned>(transport.rank()));
    std::vector<std::pair<int, bool>> order;
    std::vector<std::vector<Message>> sent, expected, got;
    for (int peer = 0; peer < transport.ranks(); ++peer) {
      sent.push_back(messages(transport.rank(), peer));
      expected.push_back(messages(peer, transport.rank()));
      got.push_back(expected.back());
      for (auto& message : got.back()) std::ranges::fill(message.data, std::byte{0});
      for (size_t i = 0; i < sent.back().size(); ++i) order.insert(order.end(), {{peer, true}, {peer, false}});
    }
    std::ranges::shuffle(order, random);

    std::vector<size_t> next_send(sent.size()), next_receive(sent.size());
    std::vector<Transport::Ticket> tickets;
    for (const auto& [peer, is_send] : order) {
      const auto p = static_cast<size_t>(peer);
      auto& message = is_send ? sent[p][next_send[p]++] : got[p][next_receive[p]++];
      tickets.push_back(is_send ? transport.send(peer, message.channel, message.data.data(), message.data.size())
                                : transport.receive(peer, message.channel, message.data.data(), message.data.size()));
      if (random() % 2 == 0) {
        EXPECT_FALSE(transport.test(idle));
      }
    }
    for (const auto ticket : tickets) finish(transport, ticket);
    for (size_t peer = 0; peer < got.size(); ++peer) {
      for (size_t i = 0; i < got[peer].size(); ++i) {
        EXPECT_TRUE(got[peer][i].data == expected[peer][i].data) << "message " << i << " of rank " << peer;
      }
    }
    barrier(transport);
  });
}

TEST(TcpTransport, ReceiveTakesOverAMessageThatHasHalfArrived) {
  as_ranks(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    Bytes data(64 << 20, std::byte{0});
    if (transport.rank() == 0) {
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 + i / 4096);
      finish(transport, transport.send(peer, 3, nullptr, 0));
      const auto whole = transport.send(peer, 1, data.data(), data.size());
      finish(transport, transport.receive(peer, 2, nullptr, 0));
      finish(transport, whole);
      return;
    }
    // A few reads of at most 4 MiB each bring some of the message, but cannot bring all of it.
    finish(transport, transport.receive(peer, 3, nullptr, 0));
    const auto idle = transport.receive(1, kIdleChannel, nullptr, 0);
    for (int i = 0; i < 5; ++i) {
      transport.test(idle);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const auto whole = transport.receive(peer, 1, data.data(), data.size());
    EXPECT_FALSE(transport.test(whole));
    finish(transport, transport.send(peer, 2, nullptr, 0));
    finish(transport, whole);
    for (size_t i = 0; i < data.size(); i += 4093) ASSERT_EQ(data[i], static_cast<std::byte>(i * 7 + i / 4096)) << i;
  });
}

TEST(TcpTransport, OneRankNeedsNoConnection) {
  const auto transport = join(0, 1, 1);
  barrier(*transport);
  EXPECT_EQ(transport->name(), "tcp");
}

TEST(TcpTransport, ReceiveOfAnotherSizeIsAnErrorThatNamesBoth) {
  as_ranks(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    Bytes data(24);
    const auto sent = transport.send(peer, 3, data.data(), 24);
    try {
      finish(transport, transport.receive(peer, 3, data.data(), 16));
      ADD_FAILURE() << "no error";
    } catch (const InternalError& error) {
      EXPECT_EQ(error.sentence(),
                "receive of 16 bytes on channel 3 from rank " + std::to_string(peer) + " meets a message of 24 bytes");
    }
    finish(transport, sent);
  });
}

TEST(TcpTransport, RankThatDiesInTheMiddleOfAMessageIsNamed) {
  const int port = free_port();
  const pid_t child = fork_rank_1(port, [](Transport& transport) {
    const Bytes data(50 << 20);
    const auto ticket = transport.send(0, 1, data.data(), data.size());
    EXPECT_FALSE(transport.test(ticket));
    ::raise(SIGKILL);
  });
  const auto transport = join(0, 2, port);
  Bytes data(50 << 20);
  const auto ticket = transport->receive(1, 1, data.data(), data.size());
  const std::string error = error_of([&] { finish(*transport, ticket); });
  EXPECT_NE(error.find("rank 1 (127.0.0.1) has ended while rank 0 waits for 1 messages"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { transport->test(ticket); }), error);  // and still fails
  EXPECT_EQ(exit_status(child), 128 + SIGKILL);
}

TEST(TcpTransport, RankThatHasLeftIsAnErrorOnlyToWhoWantsMoreOfIt) {
  const int port = free_port();
  const int value = 42;
  const pid_t child =
      fork_rank_1(port, [&](Transport& transport) { finish(transport, transport.send(0, 1, &value, sizeof value)); });
  const auto transport = join(0, 2, port);
  EXPECT_EQ(exit_status(child), 0);
  const auto idle = transport->receive(0, kIdleChannel, nullptr, 0);
  EXPECT_FALSE(transport->test(idle));  // reads the message and the end
  int got = 0;
  finish(*transport, transport->receive(1, 1, &got, sizeof got));
  EXPECT_EQ(got, value);
  EXPECT_NE(error_of([&] { finish(*transport, transport->receive(1, 1, &got, sizeof got)); }).find("rank 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { finish(*transport, transport->send(1, 1, &got, sizeof got)); }).find("rank 1"),
            std::string::npos);
}

TEST(TcpTransport, AbortReachesTheOtherRanksWithItsExitStatus) {
  const int port = free_port();
  const pid_t child = fork_rank_1(port, [](Transport& transport) { transport.abort(3); });
  const auto transport = join(0, 2, port);
  const std::string error = error_of([&] { finish(*transport, transport->receive(1, 1, nullptr, 0)); });
  EXPECT_EQ(error, "rank 1 (127.0.0.1) gave up on the job with exit status 3; see that rank's own last lines");
  EXPECT_EQ(exit_status(child), 3);
}

TEST(TcpTransport, RankThatAbandonsTheJobIsAnErrorEvenToWhoWaitsForAnother) {
  std::vector<std::string> errors(3);
  as_ranks(3, [&](Transport& transport) {
    const int rank = transport.rank();
    if (rank == 1) return transport.abandon("");
    errors[static_cast<size_t>(rank)] =
        error_of([&] { finish(transport, transport.receive(2 - rank, 1, nullptr, 0)); });
  });
  // One of the two may learn it from the other, which ended because of it.
  const auto names_rank_1 = [](const std::string& error) {
    return error.starts_with("rank 1 (127.0.0.1) gave up on the job");
  };
  EXPECT_TRUE(std::ranges::any_of(errors, names_rank_1)) << errors[0] << '\n' << errors[2];
  for (const int rank : {0, 2}) EXPECT_NE(errors[static_cast<size_t>(rank)], "no error") << rank;
}

TEST(TcpTransport, MissingRankIsNamedWhenPatienceEnds) {
  const std::chrono::milliseconds patience(300);
  const int port = free_port();
  std::string late;
  std::thread rank_1([&] { late = error_of([&] { join(1, 3, port, patience); }); });
  const std::string error = error_of([&] { join(0, 3, port, patience); });
  rank_1.join();
  EXPECT_EQ(error, "rank 0 of 3 waited 0.3 s in vain for ranks 2");
  EXPECT_NE(late.find("rank 1 of 3 reached rank 0"), std::string::npos) << late;
}

TEST(TcpTransport, AbsentRank0IsAnErrorThatSaysWhere) {
  const int port = free_port();
  const std::string error = error_of([&] { join(1, 2, port, std::chrono::milliseconds(200)); });
  EXPECT_EQ(error, "rank 1 of 2 could not reach rank 0 at 127.0.0.1 port " + std::to_string(port) +
                       " in 0.2 s: Connection refused; need MASTER_ADDR and MASTER_PORT of a running rank 0");
}

TEST(TcpTransport, PortInUseIsAnErrorThatSaysWhatToDo) {
  const Descriptor occupant(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(occupant.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(occupant.get(), 1), 0);
  ASSERT_EQ(::getsockname(occupant.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string error = error_of([&] { join(0, 2, ntohs(address.sin_port)); });
  EXPECT_NE(error.find("Address already in use; set MASTER_PORT to a free port"), std::string::npos) << error;
}

TEST(TcpTransport, StrangersAtThePortAreSentAway) {
  const int port = free_port();
  std::thread stranger([&] {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      std::this_thread::yield();
    const std::string words(100, 'x');
    ::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    char answer = 0;
    EXPECT_LE(::recv(socket.get(), &answer, 1, 0), 0);
    std::thread rank_1([&] { join(1, 2, port); });
    rank_1.join();
  });
  EXPECT_NO_THROW(join(0, 2, port));
  stranger.join();
}

TEST(TcpTransport, RanksThatDisagreeAboutTheJobAreAUserError) {
  const int port = free_port();
  std::thread other([&] { error_of([&] { join(1, 3, port, std::chrono::seconds(5)); }); });
  EXPECT_THROW(join(0, 2, port), UserError);
  other.join();
  EXPECT_THROW(join(2, 2, port), UserError);
  EXPECT_THROW(join(0, 2, 0), UserError);
}

}  // namespace
}  // namespace axonn
