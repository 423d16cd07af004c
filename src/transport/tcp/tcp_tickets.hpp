#pragma once

#include <cstdint>
#include <vector>

#include "axonn/core/error.hpp"
#include "transport/transport.hpp"

namespace axonn::tcp {

// The messages that a transport was asked to send or to receive, each in a slot of its own until
// test() has said that it is done.
class Tickets {
 public:
  uint32_t new_slot() {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot].done = false;
    return slot;
  }
  Transport::Ticket ticket(uint32_t slot) const { return uint64_t{slots_[slot].generation} << 32 | slot; }
  void finish(uint32_t slot) { slots_[slot].done = true; }

  bool done(Transport::Ticket ticket) const {
    const auto slot = static_cast<uint32_t>(ticket);
    AXONN_ASSERT(slot < slots_.size() && slots_[slot].generation == ticket >> 32,
                 "test() of a ticket that was done before");
    return slots_[slot].done;
  }
  void give_back(Transport::Ticket ticket) {
    const auto slot = static_cast<uint32_t>(ticket);
    ++slots_[slot].generation;
    free_.push_back(slot);
  }

 private:
  struct Slot {
    uint32_t generation = 0;
    bool done = false;
  };

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace axonn::tcp
