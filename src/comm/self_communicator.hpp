#pragma once

#include <array>
#include <vector>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// A group of one rank, on any device: at most a copy.
class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(Group group, c10::Device device) : Communicator(std::move(group)), device_(device) {}

  std::string_view backend() const override { return "self"; }
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
  Counters counters() const override { return {.collectives = collectives_}; }

 private:
  Request copy(const at::Tensor& from, const at::Tensor& to, const CollectiveOptions& options);
  // The unfinished requests before a call, of its options and of its queue.
  std::vector<Request> before(const CollectiveOptions& options);

  const c10::Device device_;
  std::array<Request, 3> last_;  // last request of each queue, when it had to wait
  int64_t collectives_ = 0;
};

}  // namespace axonn
