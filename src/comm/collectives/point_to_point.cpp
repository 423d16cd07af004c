#include "comm/collectives/point_to_point.hpp"

#include <algorithm>

namespace axonn {

PointToPoint::PointToPoint(Call call, Direction direction, int peer, std::byte* data, size_t bytes)
    : QueuedOperation(std::move(call)),
      direction_(direction),
      peer_(peer),
      data_(data),
      bytes_(bytes),
      messages_((bytes + kMessageBytes - 1) / kMessageBytes) {}

bool PointToPoint::passes(const QueuedOperation& earlier) const {
  const auto* other = dynamic_cast<const PointToPoint*>(&earlier);
  if (other == nullptr || (other->direction_ == direction_ && other->peer_ == peer_)) return false;
  const bool both_read = direction_ == Direction::send && other->direction_ == Direction::send;
  return both_read || data_ + bytes_ <= other->data_ || other->data_ + other->bytes_ <= data_;
}

QueuedOperation::Progress PointToPoint::poll(Transport& transport) {
  bool progressed = false;
  for (; posted_ < messages_ && posted_ - finished_ < kWindow; ++posted_) {
    std::byte* data = data_ + posted_ * kMessageBytes;
    const size_t bytes = std::min(kMessageBytes, bytes_ - posted_ * kMessageBytes);
    tickets_[posted_ % kWindow] =
        direction_ == Direction::send ? send(transport, peer_, data, bytes) : receive(transport, peer_, data, bytes);
    progressed = true;
  }
  for (; finished_ < posted_ && transport.test(tickets_[finished_ % kWindow]); ++finished_) progressed = true;
  if (finished_ == messages_) return Progress::finished;
  return progressed ? Progress::made : Progress::blocked;
}

}  // namespace axonn
