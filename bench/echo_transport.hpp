#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/transport.hpp"

namespace axonn::bench {

// The messages that a rank has sent.
struct Sent {
  int64_t messages = 0;
  int64_t bytes = 0;

  Sent operator-(const Sent& before) const { return {messages - before.messages, bytes - before.bytes}; }
};

// A rank of a job of any size, without the others: counts what it sends into `sent`. A receive ends
// at once with what the rank itself sends in its place, as if all ranks did the same, or with
// zeros. So our collectives run as they do in a job of that size.
std::unique_ptr<Transport> make_echo_transport(int rank, int ranks, uint32_t largest_channel, Sent& sent);

}  // namespace axonn::bench
