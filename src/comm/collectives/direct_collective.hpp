#pragma once

#include <c10/util/SmallVector.h>

#include "comm/collectives/collective_plan.hpp"
#include "comm/host/queued_operation.hpp"

namespace axonn {

// The same collectives for small messages, in one round. Every member sends to each other member
// what that member needs. Every member then makes its sums itself, in the ring's chain order with
// the ring's rounding, so that both give the same bits.
class DirectCollective final : public QueuedOperation {
 public:
  DirectCollective(Call call, CollectivePlan plan);
  ~DirectCollective() override { DirectCollective::release(); }
  Progress poll(Transport& transport) override;
  void release() override;
  int waits_for() const override;

 private:
  struct Message {
    int member = 0;
    Transport::Ticket ticket = 0;
    bool done = false;
  };

  void begin(Transport& transport);
  bool test(Transport& transport, c10::SmallVectorImpl<Message>& messages);
  void reduce(int owner);
  const std::byte* contribution(int member, int owner, int64_t place) const;
  bool exchanges_everything() const { return plan_.reduces && plan_.gathers; }

  const CollectivePlan plan_;
  std::byte* staging_ = nullptr;  // stride_ bytes per member for its contribution, and as many for partial sums
  const size_t stride_;
  bool begun_ = false;
  c10::SmallVector<Message, 16> receives_, sends_;
};

}  // namespace axonn
