#pragma once

#include "comm/host/queued_operation.hpp"

namespace axonn {

// In round k every member notifies the member 2^k ahead and waits for the member 2^k behind: done
// after log2(n) rounds.
class DisseminationBarrier final : public QueuedOperation {
 public:
  explicit DisseminationBarrier(Call call) : QueuedOperation(std::move(call)) {}
  Progress poll(Transport& transport) override;
  int waits_for() const override { return job_rank(source()); }

 private:
  bool waits_for_data() const override { return true; }
  int source() const { return (index() - distance_ % size() + size()) % size(); }

  int distance_ = 1;
  bool posted_ = false, has_sent_ = false, has_received_ = false;
  Transport::Ticket sent_ = 0, received_ = 0;
  char outgoing_ = 0, incoming_ = 0;
};

}  // namespace axonn
