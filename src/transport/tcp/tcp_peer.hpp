#pragma once

#include <array>
#include <deque>
#include <string>
#include <utility>

#include "transport/tcp/tcp_inbox.hpp"
#include "transport/tcp/tcp_link.hpp"
#include "transport/tcp/tcp_send_queue.hpp"

namespace axonn::tcp {

// Another rank, as a rank knows it.
struct Peer {
  static constexpr size_t kMade = 0, kTaken = 1;

  Peer(Inbox::Owner owner, Tickets& tickets, std::deque<Transport::Letter>& letters)
      : rank(owner.peer), name(owner.peer_name), inbox(std::move(owner), tickets, letters) {}

  bool connected() const { return links[kMade].open() || links[kTaken].open(); }

  const int rank;
  const std::string name;  // "rank 1 (10.0.0.2)"
  // By this rank and by the peer. Both exist when both sent their first message at once; then each
  // sends over its own.
  std::array<Link, 2> links;
  Link* sends = nullptr;  // the link that carries what this rank sends; fixed by its first message
  SendQueue outgoing;
  Inbox inbox;
  std::string ended;  // why the last connection ended; empty before
};

}  // namespace axonn::tcp
