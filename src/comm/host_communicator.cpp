#include "comm/host_communicator.hpp"

#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "comm/collectives/call_checks.hpp"
#include "comm/collectives/dissemination_barrier.hpp"
#include "comm/collectives/point_to_point.hpp"
#include "comm/collectives/ring_collective.hpp"
#include "comm/collectives/shared_collective.hpp"
#include "comm/collectives/small_collective.hpp"
#include "comm/host/buffer_pool.hpp"

namespace axonn {
namespace {

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Address of element 0 of the whole buffer if `part` lay at its own place in it.
std::byte* whole_of(const at::Tensor& part, const BlockLayout& layout, int index) {
  return bytes_of(part) - layout.part_begin(index) * part.element_size();
}

// Facts that are alike on all ranks, beside those of a call's record.
uint64_t shape_of(const CollectivePlan& plan, const CollectiveOptions& options) {
  const uint64_t halves = (plan.reduces ? 1u : 0u) + (plan.gathers ? 2u : 0u) + (plan.epilogue ? 4u : 0u) +
                          (options.production != nullptr ? 8u : 0u);
  const auto sizes = static_cast<uint64_t>(plan.result_bytes + 16 * plan.segment_bytes);
  return plan.layout.fingerprint() ^ (halves + 16 * sizes) << 32;
}

// Whether a rank's call cannot end before all ranks have called it.
bool needs_all(const CollectivePlan& plan, int rank) {
  const BlockLayout& layout = plan.layout;
  if (plan.reduces) return plan.gathers ? layout.elements() > 0 : layout.count(rank) > 0;
  for (int owner = 0; owner < layout.owners(); ++owner)
    if (layout.count(owner) == 0) return false;
  return plan.gathers;
}

}  // namespace

HostCommunicator::HostCommunicator(ProgressEngine& engine, ChannelRegistry& channels, std::shared_ptr<Channel> channel,
                                   std::shared_ptr<NodeMemory> memory)
    : Communicator(channel->group),
      engine_(engine),
      channels_(channels),
      channel_(std::move(channel)),
      before_(sums()),
      backend_(engine.transport().name()) {
  if (memory && memory->spans(group())) memory_ = std::move(memory);
}

HostCommunicator::~HostCommunicator() { channels_.give_back(std::move(channel_)); }

QueuedOperation::Call HostCommunicator::call(const char* collective, size_t bytes, const at::Tensor& input,
                                             const at::Tensor& output, const CollectiveOptions& options,
                                             const Particulars& particulars) {
  check_segment(options, collective);
  const auto& [op, root, peer] = particulars;
  const at::Tensor& data = input.defined() ? input : output;
  return {.collective = collective,
          .channel = channel_,
          .queue = channel_->queues[static_cast<size_t>(options.priority)],
          .pool = engine_.pool(),
          .sequence = peer >= 0 ? ++channel_->point_to_point : ++channel_->collectives,
          .bytes = bytes,
          .details = {.type = static_cast<int8_t>(data.defined() ? static_cast<int>(data.scalar_type()) : -1),
                      .operation = static_cast<int8_t>(op ? static_cast<int>(*op) : -1),
                      .root = root,
                      .peer = peer >= 0 ? group().ranks[static_cast<size_t>(peer)] : -1},
          .input = input,
          .output = output,
          .options = &options};
}

template <typename Operation, typename... Arguments>
Request HostCommunicator::submit(QueuedOperation::Call call, Arguments&&... arguments) {
  const PoolAllocator<Operation> allocator(engine_.pool());
  auto operation = std::allocate_shared<Operation>(allocator, std::move(call), std::forward<Arguments>(arguments)...);
  engine_.submit(operation);
  return Request(std::move(operation));
}

Request HostCommunicator::submit_plan(QueuedOperation::Call call, const CollectiveOptions& options, CollectivePlan plan,
                                      bool one_owner) {
  plan.segment_bytes = options.segment_bytes;
  call.shape = shape_of(plan, options);
  call.needs_all = needs_all(plan, rank());
  if (memory_) return submit<SharedCollective>(std::move(call), window(options.priority), std::move(plan));
  if (!one_owner && options.production == nullptr && SmallCollective::allows(plan))
    return submit<SmallCollective>(std::move(call), std::move(plan));
  return submit<RingCollective>(std::move(call), std::move(plan));
}

const std::shared_ptr<SharedWindow>& HostCommunicator::window(Priority priority) {
  auto& opened = channel_->windows[static_cast<size_t>(priority)];
  if (!opened) opened = std::make_shared<SharedWindow>(memory_, group(), channel_->ids[static_cast<size_t>(priority)]);
  return opened;
}

Request HostCommunicator::all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) {
  check_tensor(data, c10::kCPU, "comm.all_reduce");
  AXONN_CHECK(options.arena_offset.value_or(0) >= 0, "comm.all_reduce", "arena_offset must not be negative, got ",
              *options.arena_offset);
  auto layout = owners_of(data.numel(), options, size());
  check_production(options, layout, "comm.all_reduce");
  return submit_plan(call("all-reduce", data.nbytes(), data, {}, options, {.op = op}), options,
                     {.layout = std::move(layout),
                      .reduces = true,
                      .gathers = true,
                      .element_bytes = data.element_size(),
                      .kernel = reduce_kernel(data.scalar_type(), op),
                      .input = bytes_of(data),
                      .output = bytes_of(data)});
}

Request HostCommunicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output,
                                         std::span<const int64_t> counts, ReduceOp op,
                                         const CollectiveOptions& options) {
  check_tensor(input, c10::kCPU, "comm.reduce_scatter");
  check_tensor(output, c10::kCPU, "comm.reduce_scatter");
  auto layout = check_parts(input, output, counts, size(), rank(), "comm.reduce_scatter");
  check_production(options, layout, "comm.reduce_scatter");
  std::byte* const into = whole_of(output, layout, rank());
  return submit_plan(call("reduce-scatter", input.nbytes(), input, output, options, {.op = op}), options,
                     {.layout = std::move(layout),
                      .reduces = true,
                      .element_bytes = input.element_size(),
                      .kernel = reduce_kernel(input.scalar_type(), op),
                      .input = bytes_of(input),
                      .output = into});
}

Request HostCommunicator::all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                                     const CollectiveOptions& options) {
  check_tensor(input, c10::kCPU, "comm.all_gather");
  check_tensor(output, c10::kCPU, "comm.all_gather");
  refuse_production(options, "comm.all_gather");
  auto layout = check_parts(output, input, counts, size(), rank(), "comm.all_gather");
  const std::byte* const from = whole_of(input, layout, rank());
  return submit_plan(call("all-gather", output.nbytes(), input, output, options, {}), options,
                     {.layout = std::move(layout),
                      .gathers = true,
                      .element_bytes = input.element_size(),
                      .input = from,
                      .output = bytes_of(output)});
}

// Never a SmallCollective, in which every member would compute: here each element has one owner.
Request HostCommunicator::fused(const FusedCollective& collective, const CollectiveOptions& options) {
  auto layout = check_fused(collective, options, size());
  collective.contributions.defined() ? check_production(options, layout, "comm.fused")
                                     : refuse_production(options, "comm.fused");
  auto plan = fused_plan(collective, std::move(layout), options);
  const CollectiveBuffer &input = plan.reduces ? collective.contributions : collective.results,
                         &output = plan.gathers ? collective.results : collective.contributions;
  const Particulars particulars{.op = plan.reduces ? std::optional(collective.op) : std::nullopt};
  auto description = call("fused collective", input.nbytes(), input.tensor(), output.tensor(), options, particulars);
  description.details.type = static_cast<int8_t>(input.scalar_type());
  return submit_plan(std::move(description), options, std::move(plan), /*one_owner=*/true);
}

Request HostCommunicator::broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) {
  check_tensor(data, c10::kCPU, "comm.broadcast");
  refuse_production(options, "comm.broadcast");
  check_member(root, size(), "comm.broadcast");
  return submit_plan(call("broadcast", data.nbytes(), data, {}, options, {.root = root}), options,
                     {.layout = BlockLayout::one_owner(size(), root, data.numel()),
                      .gathers = true,
                      .element_bytes = data.element_size(),
                      .input = bytes_of(data),
                      .output = bytes_of(data)});
}

Request HostCommunicator::reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) {
  check_tensor(data, c10::kCPU, "comm.reduce");
  refuse_production(options, "comm.reduce");
  check_member(root, size(), "comm.reduce");
  return submit_plan(call("reduce", data.nbytes(), data, {}, options, {.op = op, .root = root}), options,
                     {.layout = BlockLayout::one_owner(size(), root, data.numel()),
                      .reduces = true,
                      .element_bytes = data.element_size(),
                      .kernel = reduce_kernel(data.scalar_type(), op),
                      .input = bytes_of(data),
                      .output = bytes_of(data)});
}

Request HostCommunicator::send(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check_tensor(data, c10::kCPU, "comm.send");
  refuse_production(options, "comm.send");
  check_peer(peer, size(), rank(), "comm.send");
  return submit<PointToPoint>(call("send", data.nbytes(), data, {}, options, {.peer = peer}),
                              PointToPoint::Direction::send, peer, bytes_of(data), data.nbytes());
}

Request HostCommunicator::receive(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check_tensor(data, c10::kCPU, "comm.receive");
  refuse_production(options, "comm.receive");
  check_peer(peer, size(), rank(), "comm.receive");
  return submit<PointToPoint>(call("receive", data.nbytes(), {}, data, options, {.peer = peer}),
                              PointToPoint::Direction::receive, peer, bytes_of(data), data.nbytes());
}

Request HostCommunicator::barrier(const CollectiveOptions& options) {
  refuse_production(options, "comm.barrier");
  auto description = call("barrier", 0, {}, {}, options, {});
  description.needs_all = true;
  if (memory_)
    return submit<SharedCollective>(std::move(description), window(options.priority),
                                    CollectivePlan{.layout = BlockLayout::equal(size(), 0)}, /*barrier=*/true);
  return submit<DisseminationBarrier>(std::move(description));
}

Communicator::Counters HostCommunicator::sums() const {
  return {channel_->bytes_sent, channel_->messages, channel_->collectives + channel_->point_to_point};
}

Communicator::Counters HostCommunicator::counters() const {
  const Counters now = sums();
  return {now.bytes_sent - before_.bytes_sent, now.messages - before_.messages, now.collectives - before_.collectives};
}

}  // namespace axonn
