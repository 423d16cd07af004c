#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "axonn/comm/communicator.hpp"
#include "comm/collective_plan.hpp"
#include "comm/progress_engine.hpp"
#include "comm/queued_operation.hpp"

namespace axonn {

// Collectives of our own on any transport, for groups of two ranks and more and tensors on the CPU. One queue a priority.
class RingCommunicator final : public Communicator {
 public:
  // The largest message that goes directly (DirectCollective) instead of around the ring; the tests set it to see both give the same bits.
  static constexpr size_t kDirectBytes = size_t{16} << 10;

  RingCommunicator(ProgressEngine& engine, std::shared_ptr<Channel> channel, size_t direct_bytes = kDirectBytes);

  std::string_view backend() const override { return backend_; }
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
  Counters counters() const override;

 private:
  QueuedOperation::Call call(const char* collective, size_t bytes, const at::Tensor& input, const at::Tensor& output,
                             const CollectiveOptions& options);
  template <typename Operation, typename... Arguments>
  Request submit(QueuedOperation::Call call, Arguments&&... arguments);
  Request submit_plan(QueuedOperation::Call call, CollectivePlan plan);

  ProgressEngine& engine_;
  std::shared_ptr<Channel> channel_;
  std::array<std::shared_ptr<OperationQueue>, 3> queues_;
  const std::string backend_;
  const size_t direct_bytes_;
};

}  // namespace axonn
