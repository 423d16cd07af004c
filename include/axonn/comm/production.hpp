#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <thread>

#include <c10/util/SmallVector.h>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// How many parts a producer has written, over all its productions. It only grows, is never reset,
// and may wrap: counts are compared by their difference. One thread claims and releases; any
// thread asks.
class ProducerCounter {
 public:
  explicit ProducerCounter(uint32_t start = 0) : claimed_(start), released_(start) {}
  // Reserves the counts of the next `parts` parts; returns the count before them.
  uint32_t claim(uint32_t parts);
  void release(uint32_t parts = 1);
  // Whether so many parts are released. Writes before their release are then visible.
  bool reached(uint32_t count) const;

 private:
  uint32_t claimed_;
  std::atomic<uint32_t> released_;
};

// The parts in which one buffer of contributions is written while a collective already reads it
// (CoCoNet, section on overlap). Owners have contiguous, nearly equal shares of the buffer, as in
// an all-reduce without an arena offset. A part is a range of one owner's share. The parts come in
// the order in which the messages of a ring carry them: the first range of the shares of owners
// r-1, r-2, ..., r, then the second one of each. So the first message leaves after one part, and
// the own share, which is needed last, is computed last. It is a value.
class ProducedParts {
 public:
  // For member r = group.index, `elements` of `element_bytes` each. `ranges` are the elements of a
  // share's ranges, one after the other, each at least 8 KiB; the last one repeats where the share
  // has more, and what a share lacks is cut off. A message has 8 to 60 KiB and does not leave its
  // range. All members give the same numbers, so that both ends of a message agree on its size.
  ProducedParts(const Group& group, int64_t elements, int64_t element_bytes, std::span<const int64_t> ranges);
  ProducedParts(const Group& group, int64_t elements, int64_t element_bytes, int64_t range)
      : ProducedParts(group, elements, element_bytes, std::span(&range, 1)) {}

  int64_t size() const { return ranges() * members_; }
  Range operator[](int64_t number) const;  // in the buffer; some parts of small buffers are empty
  // The last part that the owner's elements [begin, begin + count) lie in; count > 0. Parts are
  // released in order: when this one is, so are all of these elements, and before it not all.
  int64_t last_part(int owner, int64_t begin, int64_t count) const;
  int members() const { return members_; }
  int64_t elements() const { return begins_.back(); }
  int64_t ranges() const { return static_cast<int64_t>(borders_.size()) - 1; }
  Range range(int64_t number) const;                     // among an owner's elements, where it has so many
  int64_t message_elements() const { return message_; }  // the last one of a range may have fewer
  int64_t depth() const { return depth_; }               // messages of the largest range
  int64_t common_elements() const { return common_; }    // every range but the last is a multiple of it

 private:
  int members_, index_;
  int64_t message_ = 0, depth_ = 0, common_ = 0;
  c10::SmallVector<int64_t, 17> begins_;   // the owners' shares
  c10::SmallVector<int64_t, 17> borders_;  // the ranges of the largest share
};

// Writes a buffer in parts, and tells the collective that CollectiveOptions::production gives it
// to. The host thread makes it, gives it to one collective, writes and releases every part in
// order, and only then waits for the collective. Until then it waits for no other request either:
// the ranks of the group may be behind this collective in the same queue.
class Production {
 public:
  Production(std::shared_ptr<ProducerCounter> counter, ProducedParts parts);
  // If a part is missing then, the collective fails: BackendError from its wait().
  ~Production();
  Production(const Production&) = delete;
  Production& operator=(const Production&) = delete;

  const ProducedParts& parts() const { return parts_; }
  void release();  // the next part is written

  // The collective's view of it.
  class Reader {
   public:
    // Whether the owner's elements [begin, begin + count) are written. BackendError if the producer
    // has given up.
    bool ready(int owner, int64_t begin, int64_t count) const;
    bool complete() const;
    // UserError if the calling thread, which waits for `collective`, still has parts to release.
    void check_waiter(std::string_view collective) const;
    const ProducedParts& parts() const { return parts_; }

   private:
    friend class Production;
    explicit Reader(const Production& production);
    ProducedParts parts_;
    std::shared_ptr<const ProducerCounter> counter_;
    std::shared_ptr<const std::atomic<bool>> given_up_;
    uint32_t first_;
    std::thread::id producer_;
  };
  Reader reader() const { return Reader(*this); }

 private:
  ProducedParts parts_;
  std::shared_ptr<ProducerCounter> counter_;
  std::shared_ptr<std::atomic<bool>> given_up_;
  uint32_t first_;
  int64_t released_ = 0;
};

}  // namespace axonn
