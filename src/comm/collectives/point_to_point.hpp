#pragma once

#include <array>

#include "comm/collectives/ring_segments.hpp"
#include "comm/host/queued_operation.hpp"

namespace axonn {

// A send or a receive, split into messages so that a large one shows progress. Two of them with
// different peers or directions and separate buffers run side by side, so that two ranks may both
// send first.
class PointToPoint final : public QueuedOperation {
 public:
  enum class Direction : uint8_t { send, receive };
  PointToPoint(Call call, Direction direction, int peer, std::byte* data, size_t bytes);
  Progress poll(Transport& transport) override;
  bool passes(const QueuedOperation& earlier) const override;
  int waits_for() const override { return job_rank(peer_); }

 private:
  bool waits_for_data() const override { return direction_ == Direction::receive; }

  static constexpr size_t kMessageBytes = RingSegments::kLargestBytes;
  static constexpr size_t kWindow = 32;

  const Direction direction_;
  const int peer_;
  std::byte* const data_;
  const size_t bytes_, messages_;
  std::array<Transport::Ticket, kWindow> tickets_{};
  size_t posted_ = 0, finished_ = 0;
};

}  // namespace axonn
