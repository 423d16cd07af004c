#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "transport/tcp/tcp_socket.hpp"

namespace axonn::tcp {

using Secret = std::array<uint8_t, 16>;

// The bits that stand for a secret in greetings. All secrets are valid, also the empty one.
Secret secret_of(std::string_view text);

enum class Purpose : int32_t {
  join,     // a rank tells rank 0 where it listens, and takes an Answer
  notices,  // from a rank to one of its children in the tree of start-up; the table of addresses follows
  messages  // messages follow
};

// The first bytes of every connection, from the rank that connects.
struct Greeting {
  std::array<char, 8> magic{'a', 'x', 'o', 'n', 'n', 't', 'c', '2'};
  Secret secret{};
  int32_t rank = 0;
  int32_t ranks = 0;
  int32_t port = 0;  // at which the sender listens
  Purpose purpose = Purpose::join;
};

enum class Verdict : int32_t { welcome, other_secret, other_size, taken };

// Rank 0's reply to a rank that joins.
struct Answer {
  std::array<char, 8> magic = Greeting{}.magic;
  Verdict verdict = Verdict::welcome;
  int32_t ranks = 0;
};

// A connection whose greeting has the secret of the job.
struct Arrival {
  Descriptor socket;
  Greeting greeting;
};

// The socket at which a rank listens. It reads the greetings of all new connections side by side,
// so silent ones keep nobody out: at most kMostSilent connections stay without a greeting, then the
// oldest is closed, and nothing is accepted before it has had its time. A connection with another
// greeting is closed, with a line in the log.
class Door {
 public:
  Door(Descriptor listener, const Secret& secret);

  int port() const { return local_address(listener_.get()).port(); }
  int fd() const { return epoll_.get(); }  // readable when next() has something to do

  // The next connection with its whole greeting. Does not block. BackendError when the system has
  // no room for another connection.
  std::optional<Arrival> next();

 private:
  struct Pending {
    Descriptor socket;
    std::chrono::steady_clock::time_point since;
    Greeting greeting;
    size_t arrived = 0;
  };

  bool accept_one();
  void stop_listening(std::chrono::milliseconds time);
  void listen_again();
  bool read(Pending& pending);  // false when it is to be closed
  bool is_ours(const Pending& pending) const;

  Descriptor listener_;
  Secret secret_;
  Descriptor epoll_;
  std::deque<Pending> pending_;  // the oldest first
  Descriptor timer_;             // made when listening first stops
  bool listens_ = true;
};

}  // namespace axonn::tcp
