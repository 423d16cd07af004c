#pragma once

#include <c10/util/SmallVector.h>

#include "comm/collectives/collective_plan.hpp"
#include "comm/collectives/ring_segments.hpp"
#include "comm/host/queued_operation.hpp"

namespace axonn {

// Every collective as a chunked, pipelined ring. Rounds 0 .. n-2 reduce: the partial sums of owner
// o start at o+1 and pass o+2, o+3, ... until o adds its own contribution last. Rounds n-1 .. 2n-3
// gather: the finished elements pass from o to o+1, o+2, .... In round k rank r sends elements of
// owner r-1-k and receives elements of owner r-2-k. All-reduce takes all rounds. Reduce-scatter and
// reduce take the first half, all-gather and broadcast the second.
//
// A fused collective takes the same rounds. The owner computes where the last addition is made, and
// sends the result from the output. Without a reduction it computes before it sends first, ahead of
// the messages if there is time.
//
// The elements are processed in groups of kDepth chunks per owner, all rounds of a group before the
// next group. So a group stays in the cache. While a producer is at work, a group is one of its
// ranges, so that it stays ahead of the messages (ProducedParts). There are slots for two groups:
// they never fill up with chunks that wait to be sent, so the ring cannot deadlock.
class RingCollective final : public QueuedOperation {
 public:
  RingCollective(Call call, CollectivePlan plan);
  ~RingCollective() override { RingCollective::release(); }
  Progress poll(Transport& transport) override;
  Ahead compute_ahead() override;
  void release() override;
  int waits_for() const override;

 private:
  bool waits_for_data() const override { return taken_ < posted_; }

  static constexpr int kDepth = RingSegments::kDepth;

  // A message's position in the order in which both of its ends count messages.
  struct Cursor {
    int64_t group = 0;
    int round = 0;
    int chunk = 0;
  };
  struct Chunk {
    int owner = 0;
    int64_t begin = 0;  // among the owner's elements
    int64_t count = 0;
  };
  struct Slot {
    enum class State : uint8_t { free, posted, arrived, ready, leaving } state = State::free;
    Cursor cursor;
    std::byte* staging = nullptr;  // allocated at first use
    std::byte* data = nullptr;     // position of the message: staging, its place in the output, or null if
                                   // it must be packed from there
    Transport::Ticket ticket = 0;
  };
  struct Departure {
    int64_t order = 0;
    Transport::Ticket ticket = 0;
    Slot* slot = nullptr;
  };

  int64_t order(const Cursor& cursor) const {
    return (cursor.group * rounds() + cursor.round - first_round_) * depth_ + cursor.chunk;
  }
  int rounds() const { return last_round_ - first_round_ + 1; }
  Chunk sent(const Cursor& cursor) const { return chunk(cursor, index() - 1 - cursor.round); }
  Chunk received(const Cursor& cursor) const { return chunk(cursor, index() - 2 - cursor.round); }
  Chunk chunk(const Cursor& cursor, int owner) const;
  Range group_range(int64_t group) const;
  bool contributed(const Chunk& chunk) const { return written(chunk.owner, chunk.begin, chunk.count); }
  bool ended(const Cursor& cursor) const { return cursor.group >= groups_; }
  void begin();
  void settle(Cursor& cursor, bool sending) const;  // moves on to the next message that is not empty
  void settle_on_own(Cursor& cursor) const;
  void step(Cursor& cursor, bool sending) const;

  bool post_receives(Transport& transport);
  bool take_arrivals(Transport& transport);
  bool post_sends(Transport& transport);
  bool retire_sends(Transport& transport);

  void reduce(Slot& slot, const Chunk& chunk);
  bool computes_before_sending() const { return plan_.epilogue && !plan_.reduces; }
  void compute_next();
  bool compute(Slot& slot, const Chunk& chunk);
  bool compute_some(const Chunk& chunk, std::byte* sums);
  void deliver(Slot& slot, const Chunk& chunk);
  std::byte* staging(Slot& slot);
  size_t message_bytes(const Cursor& cursor, const Chunk& chunk) const;
  const std::byte* first_contribution(const Chunk& chunk);
  const std::byte* result(const Chunk& chunk);
  template <typename Source>
  const std::byte* packed(const Chunk& chunk, int64_t element_bytes, Source source);
  bool may_overwrite(const Cursor& cursor) const;
  size_t wrapped(int64_t message) const { return static_cast<size_t>(message) % slots_.size(); }
  Slot& slot_of(int64_t message) { return slots_[wrapped(message)]; }

  CollectivePlan plan_;
  const int first_round_, last_round_;
  const int64_t chunk_elements_;
  const int depth_;  // most messages of an owner in a group
  const int64_t groups_;
  const int next_, previous_;

  c10::SmallVector<Slot, 2 * kDepth> slots_;   // received messages, in turn
  c10::SmallVector<Slot, 2 * kDepth> packed_;  // first contributions that are not contiguous
  c10::SmallVector<Departure, 2 * kDepth> leaving_;
  Cursor to_post_, to_take_, to_send_, to_compute_;
  int64_t posted_ = 0, taken_ = 0, sent_ = 0, retired_ = 0;  // counts of messages
  int64_t computed_ = 0;  // elements of the present chunk for which the epilogue was called
  bool begun_ = false;
};

}  // namespace axonn
