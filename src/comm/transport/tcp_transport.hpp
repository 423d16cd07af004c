#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/transport/transport.hpp"

namespace axonn {

// A transport over TCP, one connection between any two ranks. Every rank of the job makes one: rank 0 listens at `address`:`port` (on all
// interfaces, or on the loopback alone when `address` is one) and the others go there to learn of each other. UserError when the ranks
// disagree, BackendError when somebody has not come after `patience`.
//
// Messages that nobody has asked for yet are buffered without limit. A send is done when the system has taken its bytes. A rank that ends,
// orderly or not, is a BackendError with its number on every rank that still has something outstanding with it; one that calls abandon() or
// abort() is one on every rank. Ranks notice inside test(), not while they compute.
std::unique_ptr<Transport> make_tcp_transport(int rank, int ranks, const std::string& address, int port,
                                              std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace axonn
