#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "comm/transport/tcp_door.hpp"

namespace axonn::tcp {

// Precedes each message on the wire.
struct Header {
  static constexpr uint32_t kMark = 0x6e6f7861;

  uint64_t bytes = 0;
  uint32_t channel = 0;
  uint32_t mark = kMark;
};

struct Outgoing {
  Header header;
  const std::byte* data;
  size_t sent;  // bytes of header and data together
  uint32_t slot;
};

// The messages for one peer, by priority. Those of one priority keep their order.
class SendQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void push(const Outgoing& message) {
    queues_[message.header.channel % queues_.size()].push_back(message);
    ++size_;
  }
  // The message that was begun, else the first of the most urgent ones.
  Outgoing& next() {
    if (queues_[at_].empty() || queues_[at_].front().sent == 0) {
      for (at_ = 0; queues_[at_].empty();) ++at_;
    }
    return queues_[at_].front();
  }
  void pop() {
    queues_[at_].pop_front();
    --size_;
  }

 private:
  std::array<std::deque<Outgoing>, 4> queues_;
  size_t at_ = 0;
  size_t size_ = 0;
};

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

// The message that is being read from a connection.
struct Incoming {
  Header header;
  size_t header_arrived = 0;
  size_t arrived = 0;
  std::byte* target = nullptr;
  Buffer buffer;  // owns `target` until a receive for the message is posted
  uint32_t slot = 0;

  bool in_body() const { return header_arrived == sizeof(Header); }
};

// A connection that carries messages in both directions.
struct Link {
  Descriptor socket;
  bool waits_for_room = false;  // EPOLLOUT is armed
  Greeting greeting;
  size_t greeted = sizeof(Greeting);  // bytes of our greeting that are sent
  Incoming incoming;
};

struct Peer {
  static constexpr size_t kMade = 0, kTaken = 1;

  int rank = 0;
  // By this rank and by the peer. Both exist when both sent their first message at once; then each
  // sends over its own.
  std::array<Link, 2> links;
  Link* sends = nullptr;  // the link that carries what this rank sends; fixed by its first message
  SendQueue outgoing;
  std::unordered_map<uint32_t, Channel> channels;
  size_t posted = 0;            // receives that are not done
  size_t unexpected_bytes = 0;  // buffered, without a receive
  std::string ended;            // why the last connection ended; empty before

  bool connected() const { return links[kMade].socket.open() || links[kTaken].socket.open(); }
};

}  // namespace axonn::tcp
