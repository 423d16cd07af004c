// The part of the transport that heeds the end of other ranks, and tells them that this one ends.
#include <unistd.h>

#include "transport/tcp/tcp_transport_impl.hpp"

namespace axonn::tcp {
namespace {

constexpr const char* kSeeItsOutput = "; see that rank's own last lines";

}  // namespace

// A peer has ended when its last link has; the other may still bring messages.
void TcpTransport::end(Peer& peer, Link& link, const std::string& why) {
  link.close();
  const bool loses_messages = peer.sends == &link && !peer.outgoing.empty();
  if (peer.sends == &link) peer.sends = nullptr;
  admit();
  if (peer.connected() && !loses_messages) return;
  peer.ended = why;
  fail_if_needed(peer);
}

std::string TcpTransport::outstanding_with(const Peer& peer) const {
  if (peer.inbox.posted() == 0 && peer.outgoing.empty()) return {};
  return detail::concatenate(" while rank ", rank_, " waits for ", peer.inbox.posted(), " messages from it and has ",
                             peer.outgoing.size(), " for it");
}

void TcpTransport::read_notices() {
  const auto notice = mesh_.notices.poll();
  if (!notice || notice->rank < 0 || notice->rank >= ranks() || notice->rank == rank_) return;
  const Peer& gone = peer(notice->rank);
  if (notice->kind == Notice::Kind::gave_up) {
    const std::string status = notice->status == 0 ? "" : detail::concatenate(" with exit status ", notice->status);
    fail_job(gone.name + " gave up on the job" + status + kSeeItsOutput);
  }
  const std::string outstanding = outstanding_with(gone);
  fail_job(gone.name + " has ended" + (outstanding.empty() ? " before the job" : outstanding) + kSeeItsOutput);
}

// An ended rank is an error only when something is still outstanding with it.
void TcpTransport::fail_if_needed(const Peer& peer) {
  const std::string outstanding = outstanding_with(peer);
  if (outstanding.empty()) return;
  read_notices();  // they know who was the first to end
  mesh_.notices.tell({.kind = Notice::Kind::ended, .rank = peer.rank});
  fail_job(peer.name + " has ended" + outstanding + ": " + peer.ended + kSeeItsOutput);
}

void TcpTransport::fail_job(const std::string& why) {
  failure_ = why;
  throw BackendError(kWhere, failure_);
}

void TcpTransport::give_up(int exit_status) noexcept {
  mesh_.notices.tell({.kind = Notice::Kind::gave_up, .rank = rank_, .status = exit_status});
}

void TcpTransport::abort(int exit_status) noexcept {
  const int status = exit_status == 0 ? 1 : exit_status;
  give_up(status);
  ::_exit(status);
}

}  // namespace axonn::tcp
