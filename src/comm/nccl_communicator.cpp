#include "comm/nccl_communicator.hpp"

#include <array>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/core/error.hpp"
#include "comm/call_checks.hpp"
#include "comm/nccl_queue.hpp"

namespace axonn {
namespace {

constexpr std::array kPriorities = {Priority::high, Priority::normal, Priority::low};

ncclRedOp_t nccl_op(ReduceOp op) { return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin; }

size_t elements(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

// One identity a queue, chosen by the group's first rank.
std::array<ncclUniqueId, kPriorities.size()> agree_on_ids(Communicator& cpu) {
  std::array<ncclUniqueId, kPriorities.size()> ids{};
  const at::Tensor bytes = at::zeros({static_cast<int64_t>(sizeof ids)}, at::kByte);
  if (cpu.rank() == 0) {
    for (ncclUniqueId& id : ids) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    std::memcpy(bytes.mutable_data_ptr(), ids.data(), sizeof ids);
  }
  cpu.broadcast(bytes, 0, {.tag = "NCCL start-up"}).wait();
  std::memcpy(ids.data(), bytes.const_data_ptr(), sizeof ids);
  return ids;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const Group& group, const std::string& name, c10::Device device, Communicator& cpu)
      : Communicator(group), device_(device), token_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device))) {
    const auto ids = agree_on_ids(cpu);
    for (const Priority priority : kPriorities) {
      const auto i = static_cast<size_t>(priority);
      queues_[i] = std::make_shared<NcclQueue>(group, name, device, priority, ids[i]);
    }
  }

  std::string_view backend() const override { return "nccl"; }
  Request all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) override;
  Request reduce_scatter(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts, ReduceOp op,
                         const CollectiveOptions& options) override;
  Request all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                     const CollectiveOptions& options) override;
  Request broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) override;
  Request reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) override;
  Request send(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request receive(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request barrier(const CollectiveOptions& options) override;
  // Bytes as a ring would send them: NCCL does not tell.
  Counters counters() const override { return counters_; }

 private:
  void check(const at::Tensor& tensor, const char* where) const;
  void count(int64_t bytes_sent);

  // `body(queue)` calls NCCL; a collective whose `whole` is empty moves nothing and is left out, on every rank alike.
  template <typename Body>
  Request launch(const CollectiveOptions& options, const at::Tensor& whole, const at::Tensor& part, Body&& body) {
    NcclQueue& queue = *queues_[static_cast<size_t>(options.priority)];
    const c10::cuda::CUDAGuard guard(device_);
    queue.begin(options.after);
    if (whole.numel() > 0) body(queue);
    return queue.end({whole, part});
  }

  const c10::Device device_;
  const at::Tensor token_;  // what a barrier sums
  std::array<std::shared_ptr<NcclQueue>, kPriorities.size()> queues_;
  Counters counters_;
};

void NcclCommunicator::check(const at::Tensor& tensor, const char* where) const {
  check_tensor(tensor, c10::kCUDA, where);
  AXONN_CHECK(tensor.device() == device_, where, "this communicator takes tensors on ", device_.str(), ", got one on ", tensor.device().str());
}

void NcclCommunicator::count(int64_t bytes_sent) {
  counters_.bytes_sent += bytes_sent;
  ++counters_.collectives;
}

Request NcclCommunicator::all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) {
  check(data, "comm.all_reduce");
  count(2 * (size() - 1) * static_cast<int64_t>(data.nbytes()) / size());
  return launch(options, data, {}, [&](NcclQueue& queue) {
    void* const bytes = data.mutable_data_ptr();
    check_nccl(ncclAllReduce(bytes, bytes, elements(data), nccl_type(data), nccl_op(op), queue.comm(), queue.stream()), "ncclAllReduce", queue.comm());
  });
}

// NCCL knows equal parts only; uneven ones are one reduction a rank, launched as one.
Request NcclCommunicator::reduce_scatter(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts, ReduceOp op,
                                         const CollectiveOptions& options) {
  check(input, "comm.reduce_scatter");
  check(output, "comm.reduce_scatter");
  const BlockLayout layout = check_parts(input, output, counts, size(), rank(), "comm.reduce_scatter");
  count(static_cast<int64_t>(input.nbytes()) - static_cast<int64_t>(output.nbytes()));
  return launch(options, input, output, [&](NcclQueue& queue) {
    const auto type = nccl_type(input);
    if (counts.empty()) {
      check_nccl(ncclReduceScatter(input.const_data_ptr(), output.mutable_data_ptr(), elements(output), type, nccl_op(op), queue.comm(), queue.stream()),
                 "ncclReduceScatter", queue.comm());
      return;
    }
    check_nccl(ncclGroupStart(), "ncclGroupStart", queue.comm());
    for (int i = 0; i < size(); ++i) {
      if (counts[static_cast<size_t>(i)] == 0) continue;
      std::byte* const part = static_cast<std::byte*>(input.mutable_data_ptr()) + layout.part_begin(i) * input.element_size();
      void* const result = i == rank() ? output.mutable_data_ptr() : part;
      check_nccl(ncclReduce(part, result, static_cast<size_t>(counts[static_cast<size_t>(i)]), type, nccl_op(op), i, queue.comm(), queue.stream()),
                 "ncclReduce", queue.comm());
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd", queue.comm());
  });
}

Request NcclCommunicator::all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                                     const CollectiveOptions& options) {
  check(input, "comm.all_gather");
  check(output, "comm.all_gather");
  const BlockLayout layout = check_parts(output, input, counts, size(), rank(), "comm.all_gather");
  count((size() - 1) * static_cast<int64_t>(input.nbytes()));
  return launch(options, output, input, [&](NcclQueue& queue) {
    const auto type = nccl_type(input);
    if (counts.empty()) {
      check_nccl(ncclAllGather(input.const_data_ptr(), output.mutable_data_ptr(), elements(input), type, queue.comm(), queue.stream()), "ncclAllGather",
                 queue.comm());
      return;
    }
    check_nccl(ncclGroupStart(), "ncclGroupStart", queue.comm());
    for (int i = 0; i < size(); ++i) {
      if (counts[static_cast<size_t>(i)] == 0) continue;
      std::byte* const part = static_cast<std::byte*>(output.mutable_data_ptr()) + layout.part_begin(i) * output.element_size();
      const void* const from = i == rank() ? input.const_data_ptr() : part;
      check_nccl(ncclBroadcast(from, part, static_cast<size_t>(counts[static_cast<size_t>(i)]), type, i, queue.comm(), queue.stream()), "ncclBroadcast",
                 queue.comm());
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd", queue.comm());
  });
}

Request NcclCommunicator::broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) {
  check(data, "comm.broadcast");
  check_member(root, size(), "comm.broadcast");
  count(static_cast<int64_t>(data.nbytes()));
  return launch(options, data, {}, [&](NcclQueue& queue) {
    void* const bytes = data.mutable_data_ptr();
    check_nccl(ncclBroadcast(bytes, bytes, elements(data), nccl_type(data), root, queue.comm(), queue.stream()), "ncclBroadcast", queue.comm());
  });
}

Request NcclCommunicator::reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) {
  check(data, "comm.reduce");
  check_member(root, size(), "comm.reduce");
  count(static_cast<int64_t>(data.nbytes()));
  return launch(options, data, {}, [&](NcclQueue& queue) {
    void* const bytes = data.mutable_data_ptr();
    check_nccl(ncclReduce(bytes, bytes, elements(data), nccl_type(data), nccl_op(op), root, queue.comm(), queue.stream()), "ncclReduce", queue.comm());
  });
}

Request NcclCommunicator::send(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check(data, "comm.send");
  check_peer(peer, size(), rank(), "comm.send");
  count(static_cast<int64_t>(data.nbytes()));
  return queues_[static_cast<size_t>(options.priority)]->send(data, peer, options.after);
}

Request NcclCommunicator::receive(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  check(data, "comm.receive");
  check_peer(peer, size(), rank(), "comm.receive");
  count(0);
  return queues_[static_cast<size_t>(options.priority)]->receive(data, peer, options.after);
}

Request NcclCommunicator::barrier(const CollectiveOptions& options) { return all_reduce(token_, ReduceOp::max, options); }

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const Group& group, const std::string& name, c10::Device device, Communicator& cpu) {
  AXONN_CHECK(device.is_cuda() && device.has_index(), "comm.communicator", "group '", name, "' needs a numbered CUDA device, got ", device.str());
  return std::make_unique<NcclCommunicator>(group, name, device, cpu);
}

}  // namespace axonn
