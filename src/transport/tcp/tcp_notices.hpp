#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/tcp/tcp_socket.hpp"

namespace axonn::tcp {

struct Notice {
  enum class Kind : int32_t { leaves, gave_up, ended };

  Kind kind = Kind::leaves;
  int32_t rank = 0;    // one that left the job, gave up, or ended without a word
  int32_t status = 0;  // the exit status of a rank that gave up; 0 when it is not known yet
};

// The end of the job goes along the tree of ranks (rank_tree.hpp): a rank that gives up tells its
// neighbours, and each tells its own. A connection that ends without "leaves" means that its rank
// is dead, or that its host was silent for too long. So every rank hears of every death, whoever it
// exchanges messages with. A rank that has left in good order passes nothing on any more.
class Notices {
 public:
  Notices();

  void add(int rank, Descriptor socket, std::chrono::milliseconds silence);
  int fd() const { return epoll_.get(); }  // readable when poll() has something to do

  // Does not block. Returns that a rank gave up or ended, after it was passed on, and does so once.
  std::optional<Notice> poll();

  // Tells the neighbours that the job has failed, unless they know of its end.
  void tell(const Notice& notice) noexcept;

  // Tells the neighbours that `rank`, this one, needs them no more.
  void leave(int rank) noexcept;

 private:
  struct Neighbour {
    int rank;
    Descriptor socket;
    Notice notice{};
    size_t arrived = 0;
  };

  std::optional<Notice> read(Neighbour& neighbour);
  void send_to_all(const Notice& notice) noexcept;

  Descriptor epoll_;
  std::vector<Neighbour> neighbours_;
  bool has_sent_ = false;
};

}  // namespace axonn::tcp
