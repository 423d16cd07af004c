#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "axonn/comm/communicator.hpp"
#include "comm/collectives/collective_plan.hpp"
#include "comm/host/channel_registry.hpp"
#include "comm/host/progress_engine.hpp"
#include "comm/host/queued_operation.hpp"
#include "transport/node/node_memory.hpp"
#include "transport/node/shared_window.hpp"

namespace axonn {

// Our own collectives for CPU tensors and groups of two or more ranks, with one queue per priority.
// They use shared memory when all ranks of the group are on one node, else messages of the
// transport.
class HostCommunicator final : public Communicator {
 public:
  // Gives the channel back to `channels` in the end. `memory` may be null; then all collectives use
  // messages.
  HostCommunicator(ProgressEngine& engine, ChannelRegistry& channels, std::shared_ptr<Channel> channel,
                   std::shared_ptr<NodeMemory> memory);
  ~HostCommunicator() override;

  std::string_view backend() const override { return backend_; }
  bool sends_messages() const override { return memory_ == nullptr; }
  Request all_reduce(const at::Tensor& data, ReduceOp op, const CollectiveOptions& options) override;
  Request reduce_scatter(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                         ReduceOp op, const CollectiveOptions& options) override;
  Request all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts,
                     const CollectiveOptions& options) override;
  Request fused(const FusedCollective& collective, const CollectiveOptions& options) override;
  Request broadcast(const at::Tensor& data, int root, const CollectiveOptions& options) override;
  Request reduce(const at::Tensor& data, int root, ReduceOp op, const CollectiveOptions& options) override;
  Request send(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request receive(const at::Tensor& data, int peer, const CollectiveOptions& options) override;
  Request barrier(const CollectiveOptions& options) override;
  Counters counters() const override;

 private:
  struct Particulars {
    std::optional<ReduceOp> op = {};
    int root = -1, peer = -1;
  };
  QueuedOperation::Call call(const char* collective, size_t bytes, const at::Tensor& input, const at::Tensor& output,
                             const CollectiveOptions& options, const Particulars& particulars);
  template <typename Operation, typename... Arguments>
  Request submit(QueuedOperation::Call call, Arguments&&... arguments);
  Request submit_plan(QueuedOperation::Call call, const CollectiveOptions& options, CollectivePlan plan,
                      bool one_owner = false);
  const std::shared_ptr<SharedWindow>& window(Priority priority);
  Counters sums() const;  // all communicators on the channel together

  ProgressEngine& engine_;
  ChannelRegistry& channels_;
  std::shared_ptr<Channel> channel_;
  const Counters before_;               // counters of earlier communicators on the channel
  std::shared_ptr<NodeMemory> memory_;  // null: messages
  const std::string backend_;
};

}  // namespace axonn
