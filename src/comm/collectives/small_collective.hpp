#pragma once

#include <array>

#include <c10/util/SmallVector.h>

#include "comm/collectives/collective_plan.hpp"
#include "comm/host/queued_operation.hpp"

namespace axonn {

// The same collectives for small buffers, in ceil(log4 n) rounds (Bruck et al., "Efficient
// algorithms for all-to-all communications", 1997, with radix 4). Every member gathers the
// contributions of all: in the round of distance d = 1, 4, 16, ... it has those of the d members
// from itself on, sends them to the members d, 2d and 3d before it, and receives as many of those
// after it. Then it makes its sums itself, in the ring's chain order with the ring's rounding, so
// that both give the same bits. Up to four members send each other their contributions directly,
// and where only owners need the sums, each owner its elements only; n members send at most
// 2 log2 n messages each.
//
// Its memory is n + 1 times the buffer, for a gather twice the result; allows() bounds it.
class SmallCollective final : public QueuedOperation {
 public:
  static bool allows(const CollectivePlan& plan);

  SmallCollective(Call call, CollectivePlan plan);
  ~SmallCollective() override { SmallCollective::release(); }
  Progress poll(Transport& transport) override;
  void release() override;
  int waits_for() const override;

 private:
  bool waits_for_data() const override;

  static constexpr int kRadix = 4;
  // Whether each member sends every owner that owner's elements, and nothing else.
  static bool to_owners(const CollectivePlan& plan);

  struct Message {
    int member = 0;
    size_t bytes = 0;  // 0: none
    Transport::Ticket ticket = 0;
  };

  int member_after(int distance) const { return (index() + distance) % size(); }
  int distance_to(int member) const { return (member + size() - index()) % size(); }
  // Place in the staging memory of the contribution of the member so far after this one.
  size_t begin_of(int distance) const;
  void begin();
  void post_round(Transport& transport);
  bool finish_round(Transport& transport);
  void reduce(int owner);
  void place_parts();

  const CollectivePlan plan_;
  const size_t whole_;                              // bytes of the buffer
  c10::SmallVector<size_t, 17> begins_;             // for a gather: members' parts differ
  std::byte* staging_ = nullptr;                    // contributions by distance, and room for partial sums
  int distance_ = 0;                                // present round; 0: not begun
  std::array<Message, 2 * (kRadix - 1)> messages_;  // present round: those that arrive, then the others
};

}  // namespace axonn
