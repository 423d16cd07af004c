#pragma once

#include <chrono>
#include <memory>

#include "comm/startup/meeting_place.hpp"
#include "comm/transport/transport.hpp"

namespace axonn {

// A transport over TCP with one connection between any two ranks. Every rank of the job constructs
// one. Rank 0 listens where the meeting place wants it: on all interfaces, or only on the loopback
// when that is a loopback address. The other ranks connect to it to learn of each other. UserError
// when the ranks disagree, BackendError when a rank has not connected after `patience`.
//
// Messages without a posted receive are buffered without limit. A send is done when the system has
// taken its bytes. A rank that ends, in good order or not, causes a BackendError with its number on
// every rank with something outstanding with it. A rank that calls abandon() or abort() causes one
// on every rank. Ranks notice this inside test(), not while they compute.
std::unique_ptr<Transport> make_tcp_transport(int rank, int ranks, MeetingPlace& meeting_place,
                                              std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace axonn
