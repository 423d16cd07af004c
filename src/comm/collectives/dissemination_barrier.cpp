#include "comm/collectives/dissemination_barrier.hpp"

namespace axonn {

QueuedOperation::Progress DisseminationBarrier::poll(Transport& transport) {
  bool progressed = false;
  while (distance_ < size()) {
    if (!posted_) {
      sent_ = send(transport, (index() + distance_) % size(), &outgoing_, 1);
      received_ = receive(transport, source(), &incoming_, 1);
      posted_ = progressed = true;
    }
    const bool sent = has_sent_, received = has_received_;
    has_sent_ = sent || transport.test(sent_);
    has_received_ = received || transport.test(received_);
    progressed |= sent != has_sent_ || received != has_received_;
    if (!has_sent_ || !has_received_) return progressed ? Progress::made : Progress::blocked;
    posted_ = has_sent_ = has_received_ = false;
    distance_ *= 2;
  }
  return Progress::finished;
}

}  // namespace axonn
