#pragma once

#include <memory>

#include "transport/tcp/tcp_mesh.hpp"
#include "transport/transport.hpp"

namespace axonn {

// A transport over TCP. Every rank of the job constructs one. Rank 0 listens where the meeting
// place wants it: on all interfaces, or only on the loopback when that is a loopback address. The
// others listen at the address by which they reach it. Two ranks are connected when one first sends
// to the other. UserError when the ranks disagree about the job or its secret, BackendError when a
// rank has not come after `patience`, or the system has no room for a connection.
//
// Messages without a posted receive are buffered, at most `most_unexpected_bytes` per peer. A send
// is done when the system has taken its bytes. The low two bits of a channel are its priority, 0
// the most urgent; between two messages to a peer the more urgent goes first.
//
// A rank that ends in good order causes a BackendError with its number on every rank with something
// outstanding with it. A rank that dies, calls abandon() or abort(), or whose host is silent for
// `silence`, causes one on every rank. Ranks notice this inside test() and check_others().
std::unique_ptr<Transport> make_tcp_transport(const TcpOptions& options);
std::unique_ptr<Transport> make_tcp_transport(TcpMesh mesh);

}  // namespace axonn
