// Tensors that go round a ring of ranks, each to its neighbour.
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace axonn {

// All ranks send before they receive, so none waits for a message that a rank has yet to send.
Passing Scheduler::pass_on(const at::Tensor& mine, const at::Tensor& coming, AxisSet axes, RingNeighbours neighbours,
                           std::string_view tag) {
  check_open();
  AXONN_ASSERT(mine.nbytes() == coming.nbytes(), "as much comes as goes");
  Communicator& ranks = communicators_[axes];
  const CollectiveOptions options{.priority = queue_of(Traffic::all_reduce), .tag = tag};
  LoggedRequest sent = log_.launch(Traffic::all_reduce, axes, 0, tag, ranks.send(mine, neighbours.next, options));
  Request received = ranks.receive(coming, neighbours.previous, options);
  const auto bytes = static_cast<int64_t>(coming.nbytes());
  Pending arrives(coming, log_, log_.launch(Traffic::all_reduce, axes, bytes, tag, std::move(received)));
  Passing passing(std::move(sent), log_, std::move(arrives));
  if (!policy_.switches.all_reduce) {
    const at::Tensor arrived = passing.wait();
    return Passing({}, log_, Pending(arrived));
  }
  return passing;
}

}  // namespace axonn
