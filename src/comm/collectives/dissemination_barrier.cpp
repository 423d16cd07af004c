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
    const bool told = told_, heard = heard_;
    told_ = told || transport.test(sent_);
    heard_ = heard || transport.test(received_);
    progressed |= told != told_ || heard != heard_;
    if (!told_ || !heard_) return progressed ? Progress::made : Progress::blocked;
    posted_ = told_ = heard_ = false;
    distance_ *= 2;
  }
  return Progress::finished;
}

}  // namespace axonn
