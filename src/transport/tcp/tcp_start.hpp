#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "transport/tcp/tcp_mesh.hpp"

namespace axonn::tcp {

inline constexpr std::chrono::milliseconds kDoorPause{50};  // between two looks at connections that say nothing

// The start-up of one rank, connect_tcp_mesh(): gather() on rank 0 and join() on the others, then
// spread(), then take().
class Start {
 public:
  explicit Start(const TcpOptions& options) : options_(options), deadline_(options.patience), table_(options.ranks) {
    mesh_.options = options;
  }

  void gather();
  void join();
  void spread();
  TcpMesh take();

 private:
  Greeting greeting(Purpose purpose) const;
  bool send(const Descriptor& socket, const void* data, size_t bytes);
  bool enter(const Arrival& arrival);
  static SocketAddress own_address(const MeetingPoint& wanted);
  void listen(const SocketAddress& local, const std::string& host);
  std::optional<Answer> try_point(const MeetingPoint& point, std::string& problem);
  std::optional<Answer> ask_rank_0(const Descriptor& socket);
  void check(const Answer& answer) const;
  Arrival parent();
  bool rank_0_is_gone() const;
  std::string me() const { return detail::concatenate("rank ", options_.rank, " of ", options_.ranks); }
  std::string where_rank_0_is() const { return "rank 0 at " + options_.meeting_place->name(); }
  double patience_in_seconds() const { return static_cast<double>(options_.patience.count()) / 1000; }

  const TcpOptions options_;
  const Deadline deadline_;
  std::vector<PackedAddress> table_;  // by rank; family 0: not known yet
  SocketAddress rank_0_;
  TcpMesh mesh_;
};

}  // namespace axonn::tcp
