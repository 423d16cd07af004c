#include "comm/self_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "axonn/core/error.hpp"
#include "comm/collectives/call_checks.hpp"

namespace axonn {
namespace {

// A copy that must come after unfinished requests. The first wait() or done() after they are done
// makes it.
class DeferredCopy final : public Request::State {
 public:
  DeferredCopy(std::vector<Request> after, at::Tensor from, at::Tensor to)
      : after_(std::move(after)), from_(std::move(from)), to_(std::move(to)) {}

  void wait() override {
    std::vector<Request> after;
    {
      const std::lock_guard lock(mutex_);
      after = after_;
    }
    for (const Request& request : after) request.wait();
    done();
  }

  bool done() override {
    const std::lock_guard lock(mutex_);
    if (!std::ranges::all_of(after_, &Request::done)) return false;
    after_.clear();
    if (to_.defined()) std::memcpy(to_.data_ptr(), from_.data_ptr(), from_.nbytes());
    from_.reset();
    to_.reset();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Request> after_;
  at::Tensor from_, to_;
};

}  // namespace

// Copies nothing when `to` is undefined or the same memory, but the request still comes after
// `after`.
Request SelfCommunicator::copy(const at::Tensor& from, const at::Tensor& to, const CollectiveOptions& options) {
  ++collectives_;
  const bool moves = to.defined() && to.data_ptr() != from.data_ptr();
  if (!device_.is_cpu()) {  // wait() makes the stream wait, not the host
    for (const Request& request : options.after) request.wait();
    if (moves) to.view({-1}).copy_(from.view({-1}), /*non_blocking=*/true);
    return {};
  }
  std::vector<Request> after;
  for (const Request& request : options.after)
    if (!request.done()) after.push_back(request);
  Request& last = last_[static_cast<size_t>(options.priority)];
  if (!last.done()) after.push_back(last);
  last = {};
  if (!after.empty())
    return last = Request(std::make_shared<DeferredCopy>(std::move(after), from, moves ? to : at::Tensor()));
  if (moves) std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  return {};
}

Request SelfCommunicator::all_reduce(const at::Tensor& data, ReduceOp, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.all_reduce");
  return copy(data, {}, options);
}

Request SelfCommunicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output,
                                         std::span<const int64_t> counts, ReduceOp, const CollectiveOptions& options) {
  check_tensor(input, device_.type(), "comm.reduce_scatter");
  check_tensor(output, device_.type(), "comm.reduce_scatter");
  check_parts(input, output, counts, 1, 0, "comm.reduce_scatter");
  return copy(input, output, options);
}

Request SelfCommunicator::all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                                     const CollectiveOptions& options) {
  check_tensor(input, device_.type(), "comm.all_gather");
  check_tensor(output, device_.type(), "comm.all_gather");
  check_parts(output, input, counts, 1, 0, "comm.all_gather");
  return copy(input, output, options);
}

Request SelfCommunicator::broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.broadcast");
  check_member(root, 1, "comm.broadcast");
  return copy(data, {}, options);
}

Request SelfCommunicator::reduce(const at::Tensor& data, int root, ReduceOp, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.reduce");
  check_member(root, 1, "comm.reduce");
  return copy(data, {}, options);
}

Request SelfCommunicator::send(const at::Tensor&, int peer, const CollectiveOptions&) {
  check_peer(peer, 1, 0, "comm.send");
  return {};
}

Request SelfCommunicator::receive(const at::Tensor&, int peer, const CollectiveOptions&) {
  check_peer(peer, 1, 0, "comm.receive");
  return {};
}

Request SelfCommunicator::barrier(const CollectiveOptions& options) { return copy({}, {}, options); }

}  // namespace axonn
