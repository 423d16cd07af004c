#include "comm/nccl/nccl_communicator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/core/error.hpp"
#include "comm/collectives/call_checks.hpp"
#include "comm/nccl/device_check.hpp"
#include "comm/nccl/nccl_queue.hpp"

namespace axonn {
namespace {

constexpr size_t kPriorities = 3;

ncclRedOp_t nccl_op(ReduceOp op) { return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin; }

size_t elements(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

void* part_of(const at::Tensor& whole, const BlockLayout& layout, int rank) {
  return static_cast<std::byte*>(whole.mutable_data_ptr()) + layout.part_begin(rank) * whole.element_size();
}

// Calls `call(rank, elements)` for every rank that has a part; NCCL launches them as one.
template <typename Call>
ncclResult_t grouped(std::span<const int64_t> counts, Call&& call) {
  return launched_as_one([&] {
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < counts.size() && result == ncclSuccess; ++i)
      if (counts[i] > 0) result = call(static_cast<int>(i), static_cast<size_t>(counts[i]));
    return result;
  });
}

// NCCL takes equal parts in one call.
bool are_equal(std::span<const int64_t> counts) {
  return std::ranges::all_of(counts, [&](int64_t count) { return count == counts.front(); });
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Group& group, const std::string& name, c10::Device device, NcclHost host)
      : Communicator(group),
        group_(group),
        name_(name),
        device_(device),
        host_(std::move(host)),
        token_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device))) {
    check_same_settings(*host_.cpu, nccl_start_settings());
    check_devices(*host_.cpu, group, device);
  }

  std::string_view backend() const override { return "nccl"; }
  Request all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) override;
  Request reduce_scatter(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                         ReduceOp op, const CollectiveOptions& options) override;
  Request all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                     const CollectiveOptions& options) override;
  Request fused(const FusedCollective&, const CollectiveOptions&) override { refuse_fused(backend()); }
  Request broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) override;
  Request reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) override;
  Request send(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request receive(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request barrier(const CollectiveOptions& options) override;
  // Bytes that a ring would send, because NCCL does not report them.
  Counters counters() const override { return counters_; }

 private:
  void check(const at::Tensor& tensor, const char* where) const;
  void count(int64_t bytes_sent);
  NcclQueue& queue_of(Priority priority);  // the first call of all members makes it
  NcclStart start() const;
  bool any_sent_messages() const;  // a member, until now; all call it

  struct Call {
    const char* function;    // NCCL's
    const char* collective;  // as on the host
    std::optional<ReduceOp> op = {};
    int root = -1;
    uint32_t layout = 0;  // BlockLayout::fingerprint(), where there are parts
  };
  // `body(comm, stream)` calls NCCL. An empty `whole` moves nothing, so every rank skips the call.
  template <typename Body>
  Request launch(const Call& call, const CollectiveOptions& options, const at::Tensor& whole, const at::Tensor& part,
                 Body&& body) {
    refuse_production(options, "comm.nccl");
    NcclQueue& queue = queue_of(options.priority);
    const c10::cuda::CUDAGuard guard(device_);
    queue.begin(options.after);
    if (whole.numel() > 0) queue.check(body(queue.comm(), queue.stream()), call.function);
    return queue.end({.collective = call.collective,
                      .tag = options.tag,
                      .bytes = static_cast<int64_t>(whole.nbytes()),
                      .details = {.moment = host_.moment ? host_.moment->packed() : 0,
                                  .type = static_cast<int8_t>(whole.scalar_type()),
                                  .operation = static_cast<int8_t>(call.op ? static_cast<int>(*call.op) : -1),
                                  .priority = static_cast<int8_t>(options.priority),
                                  .root = call.root},
                      .shape = call.layout},
                     {whole, part});
  }

  const Group group_;
  const std::string name_;
  const c10::Device device_;
  const NcclHost host_;
  const at::Tensor token_;                                      // summed by barriers
  std::array<std::shared_ptr<NcclQueue>, kPriorities> queues_;  // null before the first use
  bool messages_ = false;                                       // whether this rank has sent or received any
  Counters counters_;
};

void NcclCommunicator::check(const at::Tensor& tensor, const char* where) const {
  check_tensor(tensor, c10::kCUDA, where);
  const auto device = tensor.device();
  AXONN_CHECK(device == device_, where, "this communicator takes tensors on ", device_.str(), ", got one on ",
              device.str());
}

void NcclCommunicator::count(int64_t bytes_sent) {
  counters_.bytes_sent += bytes_sent;
  ++counters_.collectives;
}

NcclQueue& NcclCommunicator::queue_of(Priority priority) {
  auto& queue = queues_[static_cast<size_t>(priority)];
  if (!queue) {
    const uint32_t channel = kDeviceChannel | host_.channels[static_cast<size_t>(priority)];
    auto comm = std::make_shared<NcclComm>(group_, name_, channel, device_, start(), *host_.calls);
    queue = std::make_shared<NcclQueue>(std::move(comm), host_.calls, name_, device_, priority);
  }
  return *queue;
}

// All members come here at the same place of the program, so all have the same queues.
NcclStart NcclCommunicator::start() const {
  const auto other = std::ranges::find_if(queues_, [](const auto& queue) { return queue != nullptr; });
  if (other == queues_.end()) return start_by_identity(*host_.cpu);
  auto split = start_by_split((*other)->comm(), rank());
  if (!split || any_sent_messages()) return start_by_identity(*host_.cpu);
  (*other)->finish();
  return NcclComm::keeping((*other)->communicator(), *std::move(split));
}

// A member would wait for the end of a message whose receiver calls for it only later.
bool NcclCommunicator::any_sent_messages() const {
  const at::Tensor any = at::full({1}, messages_ ? 1 : 0, at::kInt);
  host_.cpu->all_reduce(any, ReduceOp::max, {.tag = "NCCL start-up"}).wait();
  return *any.const_data_ptr<int>() != 0;
}

Request NcclCommunicator::all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) {
  check(data, "comm.all_reduce");
  count(2 * (size() - 1) * static_cast<int64_t>(data.nbytes()) / size());
  return launch({"ncclAllReduce", "all-reduce", op}, options, data, {}, [&](ncclComm_t comm, cudaStream_t stream) {
    void* const in_place = data.mutable_data_ptr();
    return ncclAllReduce(in_place, in_place, elements(data), nccl_type(data), nccl_op(op), comm, stream);
  });
}

// NCCL has no call for uneven parts: they take one reduction per rank, launched as one.
Request NcclCommunicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output,
                                         std::span<const int64_t> counts, ReduceOp op,
                                         const CollectiveOptions& options) {
  check(input, "comm.reduce_scatter");
  check(output, "comm.reduce_scatter");
  const BlockLayout layout = check_parts(input, output, counts, size(), rank(), "comm.reduce_scatter");
  count(static_cast<int64_t>(input.nbytes()) - static_cast<int64_t>(output.nbytes()));
  return launch({"ncclReduceScatter", "reduce-scatter", op, -1, layout.fingerprint()}, options, input, output,
                [&](ncclComm_t comm, cudaStream_t stream) {
                  const auto type = nccl_type(input);
                  if (are_equal(counts))
                    return ncclReduceScatter(input.const_data_ptr(), output.mutable_data_ptr(), elements(output), type,
                                             nccl_op(op), comm, stream);
                  return grouped(counts, [&](int root, size_t part_elements) {
                    void* const part = part_of(input, layout, root);
                    void* const result = root == rank() ? output.mutable_data_ptr() : part;
                    return ncclReduce(part, result, part_elements, type, nccl_op(op), root, comm, stream);
                  });
                });
}

Request NcclCommunicator::all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                                     const CollectiveOptions& options) {
  check(input, "comm.all_gather");
  check(output, "comm.all_gather");
  const BlockLayout layout = check_parts(output, input, counts, size(), rank(), "comm.all_gather");
  count((size() - 1) * static_cast<int64_t>(input.nbytes()));
  const Call call{.function = "ncclAllGather", .collective = "all-gather", .layout = layout.fingerprint()};
  return launch(call, options, output, input, [&](ncclComm_t comm, cudaStream_t stream) {
    const auto type = nccl_type(input);
    if (are_equal(counts))
      return ncclAllGather(input.const_data_ptr(), output.mutable_data_ptr(), elements(input), type, comm, stream);
    return grouped(counts, [&](int root, size_t part_elements) {
      void* const part = part_of(output, layout, root);
      const void* const from = root == rank() ? input.const_data_ptr() : part;
      return ncclBroadcast(from, part, part_elements, type, root, comm, stream);
    });
  });
}

Request NcclCommunicator::broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) {
  check(data, "comm.broadcast");
  check_member(root, size(), "comm.broadcast");
  count(static_cast<int64_t>(data.nbytes()));
  return launch({"ncclBroadcast", "broadcast", {}, root}, options, data, {}, [&](ncclComm_t comm, cudaStream_t stream) {
    void* const in_place = data.mutable_data_ptr();
    return ncclBroadcast(in_place, in_place, elements(data), nccl_type(data), root, comm, stream);
  });
}

Request NcclCommunicator::reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) {
  check(data, "comm.reduce");
  check_member(root, size(), "comm.reduce");
  count(static_cast<int64_t>(data.nbytes()));
  return launch({"ncclReduce", "reduce", op, root}, options, data, {}, [&](ncclComm_t comm, cudaStream_t stream) {
    void* const in_place = data.mutable_data_ptr();
    return ncclReduce(in_place, in_place, elements(data), nccl_type(data), nccl_op(op), root, comm, stream);
  });
}

Request NcclCommunicator::send(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check(data, "comm.send");
  check_peer(peer, size(), rank(), "comm.send");
  count(static_cast<int64_t>(data.nbytes()));
  messages_ = true;
  return queue_of(options.priority).send(data, peer, options);
}

Request NcclCommunicator::receive(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check(data, "comm.receive");
  check_peer(peer, size(), rank(), "comm.receive");
  count(0);
  messages_ = true;
  return queue_of(options.priority).receive(data, peer, options);
}

Request NcclCommunicator::barrier(const CollectiveOptions& options) {
  return all_reduce(token_, ReduceOp::max, options);
}

}  // namespace

// Several communicators share a device: their kernels start in the order of the program, so that
// none waits for a rank whose own waits for another.
void prepare_nccl() { setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0); }

std::unique_ptr<Communicator> make_nccl_communicator(const Group& group, const std::string& name, c10::Device device,
                                                     NcclHost host) {
  AXONN_CHECK(device.is_cuda() && device.has_index(), "comm.communicator", "group '", name,
              "' needs a CUDA device with its number, got ", device.str());
  return std::make_unique<NcclCommunicator>(group, name, device, std::move(host));
}

}  // namespace axonn
