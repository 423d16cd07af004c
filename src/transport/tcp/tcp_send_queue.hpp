#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

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

}  // namespace axonn::tcp
