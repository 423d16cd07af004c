#include "axonn/comm/communicators.hpp"

#include <utility>

#include <ATen/ops/full.h>

#include "axonn/core/error.hpp"
#include "comm/context_gone.hpp"

namespace axonn {

Communicators::Communicators(Environment& environment, const Grid& grid, int rank, c10::Device device,
                             std::vector<int> job_ranks)
    : environment_(&environment), grid_(grid), rank_(rank), device_(device), job_ranks_(std::move(job_ranks)) {}

Communicators::Communicators(Communicator& everyone, const Grid& grid)
    : everyone_(&everyone), grid_(grid), rank_(everyone.rank()), device_(c10::kCPU) {}

void Communicators::close() noexcept {
  made_.clear();
  environment_ = nullptr;
}

Communicator& Communicators::operator[](AxisSet axes) { return get(axes, device_); }

Communicator& Communicators::on_cpu(AxisSet axes) { return get(axes, c10::kCPU); }

bool Communicators::any_sends_messages(AxisSet axes) {
  if (const auto known = any_sends_.find(axes.bits()); known != any_sends_.end()) return known->second;
  const at::Tensor any = at::full({1}, (*this)[axes].sends_messages() ? 1 : 0, at::kInt);
  on_cpu(AxisSet::all()).all_reduce(any, ReduceOp::max).wait();
  return any_sends_[axes.bits()] = any.item<int>() != 0;
}

Communicator& Communicators::get(AxisSet axes, c10::Device device) {
  if (everyone_ != nullptr) {
    AXONN_ASSERT(grid_.shape().size(axes) == everyone_->size(), axes.to_string());
    return *everyone_;
  }
  AXONN_CHECK(environment_ != nullptr, "comm.communicators", kContextGone);
  auto& communicator = made_[{axes.bits(), device.is_cpu()}];
  if (!communicator) {
    Group group = grid_.group(rank_, axes);
    if (!job_ranks_.empty())
      for (int& rank : group.ranks) rank = job_ranks_.at(static_cast<size_t>(rank));
    communicator = environment_->communicator(group, axes.to_string(), device, moment_);
  }
  return *communicator;
}

}  // namespace axonn
