#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "transport/transport.hpp"
#include "comm/watch/hang_letter.hpp"

namespace axonn {

// The letters of one rank (Transport::letter()). Those over the tree of ranks go to this rank's
// neighbours there, so no rank writes to many. The receiver acknowledges each at once. A neighbour
// that has not done so within kHeard is silent: the letter goes to those behind it too, and so do
// later ones. So a stopped rank cuts nobody off. A slow one does no harm: those behind it hear
// twice. Only a rank that stops after its acknowledgement, and before its answers, hides others.
//
// Nothing here blocks. All calls are under the engine's lock.
class TreeLetters {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  using Take = std::function<void(int from, HangLetter letter)>;
  static constexpr std::chrono::milliseconds kHeard{300};

  // `take` gets every letter but acknowledgements, and may send.
  TreeLetters(Transport& transport, Take take, Now now)
      : transport_(transport), take_(std::move(take)), now_(std::move(now)) {}

  void send(int rank, const HangLetter& letter);
  void send_up(const HangLetter& letter);  // to the parent; from rank 0 to nobody
  void send_down(const HangLetter& letter);

  void read();
  void poll();  // reads, and goes around silent ranks

  // Whether all is sent, and heard by all that are not silent.
  bool settled() const { return sent_.empty() && unheard_.empty(); }

 private:
  struct Sent {
    std::vector<uint8_t> bytes;
    Transport::Ticket ticket;
  };
  struct Arriving {
    int from;
    std::vector<uint8_t> bytes;
    Transport::Ticket ticket;
  };
  struct Unheard {
    int rank;
    HangLetter letter;
    Clock::time_point since;
  };

  void read(const Arriving& arrived);
  void pass(int rank, const HangLetter& letter);
  void go_around(int rank, const HangLetter& letter);
  void heard_by(int rank);

  Transport& transport_;
  const Take take_;
  const Now now_;
  std::vector<Sent> sent_;
  std::vector<Arriving> arriving_;
  std::deque<Unheard> unheard_;  // the oldest first
  std::set<int> silent_;
};

}  // namespace axonn
