#include "comm/self_communicator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "comm/collectives/call_checks.hpp"
#include "comm/collectives/collective_plan.hpp"

namespace axonn {
namespace {

// Work that must come after unfinished requests. Whoever asks wait() or done() after they are done
// does it, a part at a time.
class DeferredWork final : public Request::State {
 public:
  // `work` does a part of the work; it returns true when nothing is left.
  DeferredWork(std::vector<Request> after, std::function<bool()> work)
      : after_(std::move(after)), work_(std::move(work)) {}

  void wait() override {
    std::vector<Request> after;
    {
      const std::lock_guard lock(mutex_);
      after = after_;
    }
    for (const Request& request : after) request.wait();
    while (!done()) continue;
    if (!error_.empty()) throw BackendError("comm.wait", error_);
  }

  bool done() override {
    const std::lock_guard lock(mutex_);
    if (!std::ranges::all_of(after_, &Request::done)) return false;
    after_.clear();
    if (work_ && !do_a_part()) return false;
    work_ = nullptr;
    return true;
  }

 private:
  bool do_a_part() {
    try {
      return work_();
    } catch (const std::exception& error) {
      error_ = error.what();
      return true;
    }
  }

  std::mutex mutex_;
  std::vector<Request> after_;
  std::function<bool()> work_;
  std::string error_;
};

// A producer that is still at work, as something to come after.
class AllWritten final : public Request::State {
 public:
  explicit AllWritten(Production::Reader production) : production_(std::move(production)) {}
  void wait() override {
    for (; !done(); std::this_thread::yield()) production_.check_waiter("a collective of one rank");
  }
  bool done() override { return production_.complete() && production_.ready(0, 0, production_.parts().elements()); }

 private:
  const Production::Reader production_;
};

// Calls the epilogue for one block of the arena after the other; the sums are the contributions.
std::function<bool()> epilogue_by_blocks(CollectivePlan plan, const FusedCollective& kept) {
  return [plan = std::move(plan), contributions = kept.contributions, results = kept.results,
          done = int64_t{0}]() mutable {
    const int64_t elements = plan.layout.elements();
    const int64_t left_in_block = BlockOwners::kBlock - (plan.first_place + done) % BlockOwners::kBlock;
    const int64_t count = std::min(left_in_block, elements - done);
    plan.for_each_range(0, done, count, [&](int64_t place, int64_t, int64_t length) {
      plan.epilogue(place, length, plan.reduces ? plan.in(place) : nullptr, plan.gathers ? plan.out(place) : nullptr);
    });
    done += count;
    return done == elements;
  };
}

}  // namespace

std::vector<Request> SelfCommunicator::before(const CollectiveOptions& options) {
  check_segment(options, "a collective of one rank");
  std::vector<Request> unfinished;
  for (const Request& request : options.after)
    if (!request.done()) unfinished.push_back(request);
  if (options.production != nullptr)
    unfinished.emplace_back(std::make_shared<AllWritten>(options.production->reader()));
  Request& last = last_[static_cast<size_t>(options.priority)];
  if (!last.done()) unfinished.push_back(last);
  last = {};
  return unfinished;
}

// Copies nothing when `to` is undefined or the same memory, but the request still comes after
// `after`.
Request SelfCommunicator::copy(const at::Tensor& from, const at::Tensor& to, const CollectiveOptions& options) {
  ++collectives_;
  const bool moves = to.defined() && to.data_ptr() != from.data_ptr();
  if (!device_.is_cpu()) {  // wait() makes the stream wait, not the host
    refuse_production(options, "comm.self");
    for (const Request& request : options.after) request.wait();
    if (moves) to.view({-1}).copy_(from.view({-1}), /*non_blocking=*/true);
    return {};
  }
  const auto work = [from, to, moves] {
    if (moves) std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
    return true;
  };
  auto unfinished = before(options);
  if (unfinished.empty()) return work(), Request();
  return last_[static_cast<size_t>(options.priority)] =
             Request(std::make_shared<DeferredWork>(std::move(unfinished), work));
}

Request SelfCommunicator::fused(const FusedCollective& collective, const CollectiveOptions& options) {
  if (!device_.is_cpu()) refuse_fused(backend());
  CollectivePlan plan = fused_plan(collective, check_fused(collective, options, 1), options);
  collective.contributions.defined() ? check_production(options, plan.layout, "comm.fused")
                                     : refuse_production(options, "comm.fused");
  if (!collective.epilogue) return copy({}, {}, options);
  ++collectives_;
  auto unfinished = before(options);
  const bool now = unfinished.empty();
  Request request(
      std::make_shared<DeferredWork>(std::move(unfinished), epilogue_by_blocks(std::move(plan), collective)));
  if (!now) return last_[static_cast<size_t>(options.priority)] = request;
  while (!request.done()) continue;
  return request;
}

Request SelfCommunicator::all_reduce(const at::Tensor& data, ReduceOp, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.all_reduce");
  check_production(options, BlockLayout::equal(1, data.numel()), "comm.all_reduce");
  return copy(data, {}, options);
}

Request SelfCommunicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output,
                                         std::span<const int64_t> counts, ReduceOp, const CollectiveOptions& options) {
  check_tensor(input, device_.type(), "comm.reduce_scatter");
  check_tensor(output, device_.type(), "comm.reduce_scatter");
  check_production(options, check_parts(input, output, counts, 1, 0, "comm.reduce_scatter"), "comm.reduce_scatter");
  return copy(input, output, options);
}

Request SelfCommunicator::all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                                     const CollectiveOptions& options) {
  check_tensor(input, device_.type(), "comm.all_gather");
  check_tensor(output, device_.type(), "comm.all_gather");
  check_parts(output, input, counts, 1, 0, "comm.all_gather");
  refuse_production(options, "comm.all_gather");
  return copy(input, output, options);
}

Request SelfCommunicator::broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.broadcast");
  check_member(root, 1, "comm.broadcast");
  refuse_production(options, "comm.broadcast");
  return copy(data, {}, options);
}

Request SelfCommunicator::reduce(const at::Tensor& data, int root, ReduceOp, const CollectiveOptions& options) {
  check_tensor(data, device_.type(), "comm.reduce");
  check_member(root, 1, "comm.reduce");
  refuse_production(options, "comm.reduce");
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

Request SelfCommunicator::barrier(const CollectiveOptions& options) {
  refuse_production(options, "comm.barrier");
  return copy({}, {}, options);
}

}  // namespace axonn
