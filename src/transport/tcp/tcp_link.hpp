#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "transport/tcp/tcp_door.hpp"
#include "transport/tcp/tcp_inbox.hpp"
#include "transport/tcp/tcp_send_queue.hpp"

namespace axonn::tcp {

// A connection that carries messages in both directions.
class Link {
 public:
  bool open() const { return socket_.open(); }
  int fd() const { return socket_.get(); }
  void close() { socket_.close(); }

  // A connection that the peer made; its greeting has been read.
  void take(Descriptor socket);

  // A connection that this rank has started to make. The greeting precedes the first message.
  void make(Descriptor socket, const Greeting& greeting);

  // From now on `epoll` reports the connection with `tag` when something has arrived, and for_room:
  // also when there is room to write.
  void watch(const Descriptor& epoll, uint64_t tag, bool for_room);

  // Both move what they can at once, some MiB at most, so that other peers get their turn. They
  // return why the connection has ended; an empty text when it has not.
  std::string write(SendQueue& queue, Tickets& tickets);
  std::string read(Inbox& inbox, size_t connection);

 private:
  // Both return 0 or the error's number.
  int greet();
  int write_some(Outgoing& message, size_t& turn);

  Descriptor socket_;
  Greeting greeting_;
  size_t greeted_ = sizeof(Greeting);  // bytes of our greeting that are sent
  std::optional<bool> watched_for_room_;
};

}  // namespace axonn::tcp
