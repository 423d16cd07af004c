#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/tcp/tcp_send_queue.hpp"
#include "transport/tcp/tcp_tickets.hpp"

namespace axonn::tcp {

// Takes what one peer sends to this rank: it makes messages of the bytes of the peer's connections,
// and gives them to the receives of their channels. It knows no sockets: bytes are put where room()
// says, which is the receiver's own memory when a receive is posted.
//
// BackendError when bytes are no message, a message has another size than its receive, a connection
// ended within a message, and when messages without a receive would take more than
// `most_unexpected_bytes`.
class Inbox {
 public:
  static constexpr size_t kMessageBytes = 64;  // memory of a message without a receive, beside its data

  struct Owner {
    int rank = 0;  // this one
    int peer = 0;
    std::string peer_name;  // for errors
    size_t most_unexpected_bytes = 0;
  };

  // Letters that have arrived are added to `letters`.
  Inbox(Owner owner, Tickets& tickets, std::deque<Transport::Letter>& letters)
      : owner_(std::move(owner)), tickets_(tickets), letters_(letters) {}

  // Finishes `slot` when the channel's next message lies in `data`: now or in a later added().
  void receive(uint32_t channel, std::byte* data, size_t bytes, uint32_t slot);

  // Receives that are not finished.
  size_t posted() const { return posted_; }

  // The place of the next bytes of a connection; never empty.
  std::span<std::byte> room(size_t connection);
  void added(size_t connection, size_t bytes);

  // A new connection takes the place of this one.
  void restart(size_t connection);

  // A whole message, for a rank that sends to itself.
  void put(uint32_t channel, const std::byte* data, size_t bytes);

 private:
  struct Posted {
    std::byte* data;
    size_t bytes;
    uint32_t slot;
  };

  struct Buffer {
    std::unique_ptr<std::byte[]> data;
    size_t bytes = 0;
  };

  // At least one of the two is empty.
  struct Channel {
    std::deque<Posted> posted;
    std::deque<Buffer> unexpected;
  };

  // The message that a connection is bringing.
  struct Incoming {
    Header header;
    size_t header_arrived = 0;
    size_t arrived = 0;
    std::byte* target = nullptr;
    Buffer buffer;  // owns `target` until a receive for the message is posted
    uint32_t slot = 0;

    bool in_body() const { return header_arrived == sizeof(Header); }
  };

  void start(Incoming& incoming);
  void finish(Incoming& incoming);
  void take_over(Incoming& incoming, const Posted& posted);
  void check_size(size_t expected, size_t sent) const;
  Channel& channel_of(uint32_t number);
  void drop_if_idle(uint32_t number);

  const Owner owner_;
  Tickets& tickets_;
  std::deque<Transport::Letter>& letters_;
  std::array<Incoming, 2> incoming_;  // by connection
  using Channels = std::unordered_map<uint32_t, Channel>;
  Channels channels_;  // those with something in them
  std::vector<Channels::node_type> idle_;
  size_t posted_ = 0;
  size_t unexpected_bytes_ = 0;  // buffered, without a receive
};

}  // namespace axonn::tcp
