#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/startup/meeting_place.hpp"
#include "transport/tcp/tcp_door.hpp"
#include "transport/tcp/tcp_notices.hpp"
#include "transport/tcp/tcp_socket.hpp"

namespace axonn {

struct TcpOptions {
  int rank = 0;
  int ranks = 1;
  std::shared_ptr<MeetingPlace> meeting_place;                    // used only during start-up
  std::chrono::milliseconds patience = std::chrono::seconds(60);  // for start-up
  std::chrono::milliseconds silence = std::chrono::seconds(90);   // after it, a host is taken for dead
  size_t most_unexpected_bytes = size_t{1} << 30;                 // per peer, of messages without a receive
};

// The connections of a rank after start-up: it listens, knows where all others listen, and is
// connected with its neighbours in the tree. A job of one rank has none of it.
struct TcpMesh {
  TcpOptions options;
  std::string secret;  // the meeting point's; empty: whoever reaches a port may join
  std::unique_ptr<tcp::Door> door;
  std::vector<tcp::SocketAddress> addresses;  // one per rank
  tcp::Notices notices;
  std::vector<tcp::Arrival> arrivals;  // ranks that were ready earlier and have sent messages already
  size_t bytes_sent = 0;               // by this rank during start-up
};

// Start-up. Every rank but 0 connects to rank 0, says where it listens, and is let go. The table of
// all addresses then goes down a tree. So rank 0 has few connections at a time, and sends
// the table only to its children. Raises this process's limit of open files to the hard limit.
// Errors are those of make_tcp_transport().
TcpMesh connect_tcp_mesh(const TcpOptions& options);

}  // namespace axonn
