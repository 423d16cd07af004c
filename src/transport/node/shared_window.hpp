#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "axonn/grid/grid.hpp"

namespace axonn {

class NodeMemory;

// The windows of one queue's members in the memory of their node, where collectives exchange
// chunks. A chunk has one slot for a member's contributions to the others and one for its results.
// kDepth chunks are under way at a time. Each member counts the chunks that it has contributed to,
// reduced and delivered. The counts continue over all collectives of the queue, so slots need no
// clearing.
class SharedWindow {
 public:
  static constexpr int64_t kDepth = 4;

  struct Counters {
    alignas(64) std::atomic<int64_t> contributed;          // my contributions and signature are written
    std::atomic<int64_t> reduced;                          // my result is written
    std::atomic<int64_t> delivered;                        // my reads are done; when all are, its slots are free
    std::array<std::atomic<uint64_t>, kDepth> signatures;  // one per chunk under way; identifies its call
  };

  // `channel` is the queue's channel on the transport.
  SharedWindow(std::shared_ptr<NodeMemory> memory, const Group& group, uint32_t channel);

  size_t owned_bytes() const { return owned_bytes_; }  // bytes of one owner's elements in a chunk
  size_t chunk_bytes() const { return owned_bytes_ * members_.size(); }

  // Reserves the numbers of the next chunks for one collective; returns the first.
  int64_t claim(int64_t chunks) { return claimed_ += chunks, claimed_ - chunks; }

  // Whether all members have opened their windows. The functions below need that.
  bool attached();
  int missing_member() const;

  Counters& own() { return *reinterpret_cast<Counters*>(own_); }
  const Counters& of(int member) const {
    return *reinterpret_cast<const Counters*>(members_[static_cast<size_t>(member)]);
  }

  // The first member whose counter is below `chunks`, or -1.
  int behind(std::atomic<int64_t> Counters::* counter, int64_t chunks) const;

  void sign(int64_t chunk, uint64_t signature) { own().signatures[static_cast<size_t>(chunk % kDepth)] = signature; }
  uint64_t signature(int member, int64_t chunk) const {
    return of(member).signatures[static_cast<size_t>(chunk % kDepth)];
  }

  const std::byte* contributions(int member, int64_t chunk) const {
    return members_[static_cast<size_t>(member)] + contribution_place(chunk);
  }
  const std::byte* result(int member, int64_t chunk) const {
    return members_[static_cast<size_t>(member)] + result_place(chunk);
  }
  std::byte* own_contributions(int64_t chunk) { return own_ + contribution_place(chunk); }
  std::byte* own_result(int64_t chunk) { return own_ + result_place(chunk); }

 private:
  size_t contribution_place(int64_t chunk) const {
    return sizeof(Counters) + static_cast<size_t>(chunk % kDepth) * chunk_bytes();
  }
  size_t result_place(int64_t chunk) const {
    return sizeof(Counters) + kDepth * chunk_bytes() + static_cast<size_t>(chunk % kDepth) * owned_bytes_;
  }

  const std::shared_ptr<NodeMemory> memory_;
  const std::vector<int> ranks_;
  const uint32_t channel_;
  const size_t owned_bytes_;
  std::vector<const std::byte*> members_;
  std::byte* own_;
  int64_t claimed_ = 0;
};

}  // namespace axonn
