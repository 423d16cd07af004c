// Greetings, answers and notices from whoever reaches a port, over real connections.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "axonn/core/log.hpp"
#include "support/fuzz.hpp"
#include "transport/tcp_ranks.hpp"
#include "transport/tcp/tcp_door.hpp"
#include "transport/tcp/tcp_notices.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;
using fuzz::Random;

template <typename Words>
std::string bytes_of(const Words& words) {
  return {reinterpret_cast<const char*>(&words), sizeof words};
}

tcp::Greeting some_greeting(Random& random) {
  return {.secret = tcp::secret_of("s"),
          .rank = static_cast<int32_t>(random.below(4)),
          .ranks = 4,
          .port = static_cast<int32_t>(random.from(1, 65535)),
          .purpose = static_cast<tcp::Purpose>(random.below(3))};
}

bool has_secret(const std::string& greeting) {
  const tcp::Greeting right{.secret = tcp::secret_of("s")};
  return greeting.size() >= sizeof right && std::memcmp(greeting.data(), &right, offsetof(tcp::Greeting, rank)) == 0;
}

// A process that connects and sends what it has in pieces.
struct Guest {
  Descriptor socket;
  std::string bytes;
  size_t sent = 0;

  void send_some(Random& random) {
    const size_t count = std::min(bytes.size() - sent, random.from(1, 60));
    const ssize_t put = ::send(socket.get(), bytes.data() + sent, count, MSG_NOSIGNAL);
    sent = put < 0 ? bytes.size() : sent + static_cast<size_t>(put);  // it was sent away
  }
};

// Reads from a connection until its other side pauses or has ended.
std::string rest_of(const Descriptor& socket, size_t bytes) {
  std::string rest(bytes, ' ');
  return tcp::read_all(socket.get(), rest.data(), bytes, tcp::Deadline(5s)) ? rest : "not all";
}

TEST(GreetingFuzz, OnlyWholeGreetingsWithTheSecretComeIn) {
  log::configure({.level = log::Level::error});
  std::string problem;
  const auto loopback = tcp::resolve(kLoopback, 0, problem).front();
  size_t admitted = 0;
  fuzz::rounds(300, [&](Random& random) {
    tcp::Door door(tcp::listen_at(loopback), tcp::secret_of("s"));
    std::vector<Guest> guests(random.from(1, 8));
    size_t expected = 0;
    for (Guest& guest : guests) {
      guest.bytes = bytes_of(some_greeting(random)) + std::string(random.below(3) * 10, 'm');
      if (random.one_in(2)) guest.bytes = fuzz::mutated(guest.bytes, random);
      guest.socket = knock(door.port());
      expected += has_secret(guest.bytes);
    }
    size_t arrived = 0;
    const auto look = [&] {
      const auto arrival = door.next();
      if (!arrival) return;
      ++arrived;
      const std::string words = bytes_of(arrival->greeting);
      EXPECT_TRUE(has_secret(words));
      const auto sender = std::ranges::find_if(guests, [&](const Guest& guest) {
        return tcp::local_address(guest.socket.get()).port() == tcp::peer_address(arrival->socket.get()).port();
      });
      ASSERT_NE(sender, guests.end());
      EXPECT_TRUE(sender->bytes.starts_with(words));
      const std::string rest = sender->bytes.substr(words.size());
      while (sender->sent < sender->bytes.size()) sender->send_some(random);
      EXPECT_EQ(rest_of(arrival->socket, rest.size()), rest);  // the messages
    };
    const auto all_sent = [&] {
      return std::ranges::all_of(guests, [](const Guest& guest) { return guest.sent == guest.bytes.size(); });
    };
    while (!all_sent()) {
      Guest& guest = guests[random.below(guests.size())];
      if (guest.sent < guest.bytes.size()) guest.send_some(random);
      if (random.one_in(2)) look();
    }
    for (const tcp::Deadline deadline(5s); arrived < expected && !deadline.passed();) look();
    for (int i = 0; i < 3; ++i) look();
    EXPECT_EQ(arrived, expected);
    admitted += arrived;
  });
  EXPECT_GT(admitted, 500U);
}

// Strangers come before the rank, with what resembles a greeting.
TEST(GreetingFuzz, StrangersEndNoStart) {
  log::configure({.level = log::Level::error});
  fuzz::rounds(10, [](Random& random) {
    const int port = free_port();
    std::thread others([&] {
      std::vector<Guest> guests(random.from(1, 40));
      for (Guest& guest : guests) {
        guest.bytes = fuzz::mutated(bytes_of(some_greeting(random)), random);
        if (has_secret(guest.bytes)) guest.bytes[8] ^= 1;
        guest.socket = knock(port);
        if (!guest.bytes.empty()) guest.send_some(random);
      }
      EXPECT_NO_THROW(make(1, 2, port));
    });
    EXPECT_NO_THROW(make(0, 2, port));
    others.join();
  });
}

// A rank with the secret may be wrong about everything else: then the start fails with an error.
TEST(GreetingFuzz, WrongRanksOfTheJobAreAnError) {
  log::configure({.level = log::Level::error});
  fuzz::rounds(5, [](Random& random) {
    const int port = free_port();
    std::thread other([&] {
      tcp::Greeting words = some_greeting(random);
      for (int32_t* member : {&words.rank, &words.ranks, &words.port})
        if (random.one_in(3)) *member = static_cast<int32_t>(random.below(uint64_t{1} << 32));
      Guest guest{.socket = knock(port), .bytes = bytes_of(words) + fuzz::mutated("xxxx", random)};
      while (guest.sent < guest.bytes.size()) guest.send_some(random);
      rest_of(guest.socket, sizeof(tcp::Answer));
    });
    EXPECT_THROW(make(0, 4, port, 200ms), Error);
    other.join();
  });
}

// Messages of a rank that claims to be rank 0.
TEST(GreetingFuzz, WrongAnswersOfRank0AreAnError) {
  log::configure({.level = log::Level::error});
  std::string problem;
  const auto loopback = tcp::resolve(kLoopback, 0, problem).front();
  fuzz::rounds(5, [&](Random& random) {
    tcp::Door liar(tcp::listen_at(loopback), tcp::secret_of("s"));
    std::thread rank_1([&] { EXPECT_THROW(make(1, 2, liar.port(), 150ms), Error); });
    for (const tcp::Deadline deadline(200ms); !deadline.passed(); std::this_thread::sleep_for(1ms)) {
      const auto arrival = liar.next();
      if (!arrival) continue;
      tcp::Answer answer{.ranks = 2};
      if (random.one_in(2)) answer.verdict = static_cast<tcp::Verdict>(random.below(9));
      const std::string bytes = fuzz::mutated(bytes_of(answer), random);
      ::send(arrival->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    rank_1.join();
  });
}

// A neighbour's notice is passed on once; no bytes are more than one.
TEST(GreetingFuzz, NoticesAreReadInPieces) {
  fuzz::rounds(2'000, [](Random& random) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    const Descriptor theirs(ends[0]);
    tcp::Notices notices;
    notices.add(1, Descriptor(ends[1]), 1s);
    const tcp::Notice right{.kind = tcp::Notice::Kind::gave_up, .rank = 7, .status = 3};
    std::string bytes = bytes_of(right);
    const bool wrong = random.one_in(2);
    if (wrong) bytes = fuzz::mutated(bytes, random);
    size_t known = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min(bytes.size() - at, random.from(1, 5));
      const ssize_t put = ::send(theirs.get(), bytes.data() + at, count, MSG_NOSIGNAL);
      if (wrong && put < 0) break;  // a notice said that its rank leaves
      ASSERT_EQ(put, static_cast<ssize_t>(count));
      at += count;
      const auto notice = notices.poll();
      known += notice.has_value();
      if (!wrong) {
        EXPECT_EQ(notice.has_value(), at == bytes.size());
        EXPECT_EQ(notice.value_or(right).rank, 7);
        EXPECT_EQ(notice.value_or(right).status, 3);
      }
    }
    EXPECT_LE(known, bytes.size() / sizeof(tcp::Notice));
  });
}

}  // namespace
}  // namespace axonn
