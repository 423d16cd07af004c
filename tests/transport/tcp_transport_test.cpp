#include "transport/tcp/tcp_transport.hpp"

#include <linux/filter.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "transport/tcp_ranks.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kIdleChannel = 998;  // receives on it never finish; testing one makes progress

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
  const auto transport = make(0, 1, 1);
  barrier(*transport);
  EXPECT_EQ(transport->name(), "tcp");
}

TEST(TcpTransport, RankThatExchangesNothingCostsAPointer) {
  constexpr int kRanks = 65536;
  TcpMesh mesh;
  mesh.options.ranks = kRanks;
  mesh.addresses.resize(kRanks);
  const auto bytes_in_use = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  const size_t before = bytes_in_use();
  const auto transport = make_tcp_transport(std::move(mesh));
  EXPECT_LE(bytes_in_use() - before, (kRanks + 1000) * sizeof(void*));
}

TEST(TcpTransport, ReceiveOfAnotherSizeIsAnErrorThatNamesBoth) {
  std::latch both(2);
  as_ranks(2, [&](Transport& transport) {
    const int peer = 1 - transport.rank();
    Bytes data(24);
    finish(transport, transport.send(peer, 3, data.data(), 24));
    const std::string error = error_of([&] { finish(transport, transport.receive(peer, 3, data.data(), 16)); });
    EXPECT_EQ(error, detail::concatenate("rank ", peer, " sent 24 bytes, but rank ", transport.rank(),
                                         " expects 16; the ranks call different collectives"));
    EXPECT_EQ(error_of([&] { transport.test(transport.receive(peer, 4, data.data(), 16)); }),
              error);  // and still fails
    both.arrive_and_wait();
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
  const auto transport = make(0, 2, port);
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
  const auto transport = make(0, 2, port);
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
  const auto transport = make(0, 2, port);
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
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              "rank 1 (127.0.0.1) gave up on the job; see that rank's own last lines");
  }
}

// Rank 6 is a child of rank 1 in the tree. Nobody has ever exchanged a message with it.
TEST(TcpTransport, DeathOfARankWithoutConnectionsEndsTheWaitsOfAll) {
  constexpr int kRanks = 7;
  const int port = free_port();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    children.push_back(fork_rank(job(rank, kRanks, port), [](Transport& transport) {
      if (transport.rank() == 6) ::raise(SIGKILL);
      const int peer = transport.rank() ^ 1;
      const std::string error = error_of([&] { finish(transport, transport.receive(peer, 1, nullptr, 0)); });
      EXPECT_EQ(error, "rank 6 (127.0.0.1) has ended before the job; see that rank's own last lines");
    }));
  }
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(exit_status(children[static_cast<size_t>(rank)]), 0) << rank;
  EXPECT_EQ(exit_status(children[6]), 128 + SIGKILL);
}

// All packets to this process's sockets vanish from now on, as if its host had.
void vanish() {
  sock_filter drop{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program{.len = 1, .filter = &drop};
  for (int fd = 3; fd < 256; ++fd) ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

TEST(TcpTransport, HostThatVanishesIsNoticedOnTheSendingSide) {
  TcpOptions options = job(0, 2, free_port());
  TcpOptions other = options;
  options.silence = 2s;
  other.rank = 1;
  const pid_t child = fork_rank(other, [](Transport& transport) {
    finish(transport, transport.send(0, 1, nullptr, 0));
    vanish();
    std::this_thread::sleep_for(60s);
  });
  const auto transport = make_tcp_transport(options);
  finish(*transport, transport->receive(1, 1, nullptr, 0));
  std::this_thread::sleep_for(100ms);
  const Bytes data(64 << 20);
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { finish(*transport, transport->send(1, 1, data.data(), data.size())); });
  EXPECT_NE(error.find("rank 1 (127.0.0.1) has ended while rank 0 waits for 0 messages from it and has 1 for it"),
            std::string::npos)
      << error;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  ::kill(child, SIGKILL);
  exit_status(child);
}

// A rank may compute, write a file or be stopped for long while others send to it.
TEST(TcpTransport, RankThatDoesNotReadIsNotTakenForDead) {
  const int port = free_port();
  Bytes data(64 << 20, std::byte{7});
  TcpOptions options = job(0, 2, port);
  options.silence = 1s;
  std::thread reader([&] {
    const auto transport = make(1, 2, port);
    std::this_thread::sleep_for(2500ms);
    Bytes got(data.size());
    finish(*transport, transport->receive(0, 1, got.data(), got.size()));
    EXPECT_TRUE(got == data);
    finish(*transport, transport->send(0, 1, nullptr, 0));
  });
  const auto transport = make_tcp_transport(options);
  EXPECT_NO_THROW(finish(*transport, transport->send(1, 1, data.data(), data.size())));
  EXPECT_NO_THROW(finish(*transport, transport->receive(1, 1, nullptr, 0)));
  reader.join();
}

TEST(TcpTransport, UnexpectedMessagesOfAPeerHaveALimit) {
  TcpOptions options = job(0, 2, free_port());
  TcpOptions other = options;
  other.rank = 1;
  options.most_unexpected_bytes = 1000;
  const pid_t child = fork_rank(other, [](Transport& transport) {
    const Bytes data(600);
    for (int i = 0; i < 3; ++i) finish(transport, transport.send(0, 1, data.data(), data.size()));
    error_of([&] { finish(transport, transport.receive(0, 1, nullptr, 0)); });
  });
  {
    const auto transport = make_tcp_transport(options);
    Bytes data(600);
    const std::string error = error_of([&] {
      finish(*transport, transport->receive(1, 1, data.data(), data.size()));
      finish(*transport, transport->receive(0, kIdleChannel, nullptr, 0));
    });
    EXPECT_EQ(error,
              "rank 1 (127.0.0.1) has sent messages that take 664 bytes and that rank 0 does not receive, and now one "
              "of 600; a rank buffers at most 1000 of another: let the ranks wait for each other");
    transport->abandon(error);
  }
  EXPECT_EQ(exit_status(child), 0);
}

TEST(TcpTransport, BytesThatAreNoMessageEndTheJob) {
  const int port = free_port();
  std::thread rank_1([&] {
    error_of([&] {
      const auto transport = make(1, 2, port);
      finish(*transport, transport->receive(0, 1, nullptr, 0));
    });
  });
  {
    const auto transport = make(0, 2, port);
    const Descriptor liar = knock(port);
    const tcp::Greeting greeting{
        .secret = tcp::secret_of("s"), .rank = 1, .ranks = 2, .port = 1, .purpose = tcp::Purpose::messages};
    const std::string words(16, 'x');
    ::send(liar.get(), &greeting, sizeof greeting, MSG_NOSIGNAL);
    ::send(liar.get(), words.data(), words.size(), MSG_NOSIGNAL);
    const std::string error = error_of([&] { finish(*transport, transport->receive(1, 1, nullptr, 0)); });
    EXPECT_NE(error.find("rank 1 (127.0.0.1) carries bytes that no rank of this job sent"), std::string::npos) << error;
    transport->abandon(error);
  }
  rank_1.join();
}

// The largest number of bytes that the system holds for a socket of this process and has not sent.
int most_unsent() {
  int most = 0;
  for (int fd = 3; fd < 256; ++fd) {
    int bytes = 0;
    if (::ioctl(fd, SIOCOUTQNSD, &bytes) == 0) most = std::max(most, bytes);
  }
  return most;
}

// An urgent message goes behind whatever the system holds already.
TEST(TcpTransport, SystemHoldsLittleThatIsNotSent) {
  std::latch both(2);
  as_ranks(2, [&](Transport& transport) {
    const Bytes data(64 << 20);
    if (transport.rank() == 0) {
      const auto ticket = transport.send(1, 6, data.data(), data.size());
      for (int i = 0; i < 300; ++i) {
        EXPECT_FALSE(transport.test(ticket));
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_GT(most_unsent(), 0);
      EXPECT_LE(most_unsent(), 256 << 10);
    }
    both.arrive_and_wait();  // rank 1 does not read
  });
}

// With one queue per peer, the urgent message would come last.
TEST(TcpTransport, UrgentMessageOvertakesOthersToTheSamePeer) {
  constexpr size_t kMessages = 256;
  constexpr uint32_t kHigh = 4, kLow = 6;
  as_ranks(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    Bytes data(256 << 10);
    std::vector<Transport::Ticket> low;
    int value = 42;
    if (transport.rank() == 0) {
      for (size_t i = 0; i < kMessages; ++i) low.push_back(transport.send(peer, kLow, data.data(), data.size()));
      finish(transport, transport.send(peer, kHigh, &value, sizeof value));
    } else {
      std::this_thread::sleep_for(300ms);  // until the system has no room for more
      for (size_t i = 0; i < kMessages; ++i) low.push_back(transport.receive(peer, kLow, data.data(), data.size()));
      finish(transport, transport.receive(peer, kHigh, &value, sizeof value));
      const auto earlier =
          std::ranges::find_if_not(low, [&](auto ticket) { return transport.test(ticket); }) - low.begin();
      EXPECT_LT(earlier, ptrdiff_t{kMessages} / 2);
      low.erase(low.begin(), low.begin() + earlier);
    }
    for (const auto ticket : low) finish(transport, ticket);
    barrier(transport);
  });
}

}  // namespace
}  // namespace axonn
