#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/wrap/split_plan.hpp"

namespace axonn {

class WrappedNetwork;
struct ModulePlace;

// UserError of `where` for numbers that cannot be.
void check_keep_split(const KeepSplit& options, const char* where);

// A typed member of a module, as parallelize() and shard() find it. Before them it does nothing.
class MemberBase {
 public:
  virtual ~MemberBase() = default;

  // The members whose split output this one takes, and how its own output stays split (nothing: it
  // is gathered).
  struct Links {
    std::vector<const MemberBase*> from;
    std::optional<KeepSplit> kept;
  };
  const Links& links() const { return links_; }
  static void link(MemberBase& first, MemberBase& second, const KeepSplit& options);

  void join(std::shared_ptr<WrappedNetwork> network, std::shared_ptr<const ModulePlace> place);
  bool joined() const { return place_ != nullptr; }

 protected:
  using Itself = std::function<at::Tensor(const at::Tensor&)>;
  // The layer of axonn that this member has become, or `itself` where it has become none; between
  // the layouts that the member takes and gives.
  at::Tensor placed(const at::Tensor& x, bool training, const Itself& itself) const;
  const WrappedNetwork& network() const { return *network_; }
  const ModulePlace& place() const { return *place_; }

 private:
  void follow_output(const at::Tensor& result) const;

  Links links_;
  std::shared_ptr<WrappedNetwork> network_;   // null before parallelize()
  std::shared_ptr<const ModulePlace> place_;  // as well
};

// A module of LibTorch that takes and gives one tensor, as a typed member.
template <typename Plain>
class MemberImpl : public Plain, public MemberBase {
 public:
  using Plain::Plain;
  at::Tensor forward(const at::Tensor& x) {
    return placed(x, this->is_training(), [this](const at::Tensor& taken) { return Plain::forward(taken); });
  }
};

// The common part of the synchronised BatchNorms.
class BatchNormBase : public MemberBase {
 protected:
  struct Tensors {
    at::Tensor weight, bias, running_mean, running_variance;  // with all channels, or undefined
    double update = 0;      // share of this batch in the running statistics; 0: they stay
    bool of_batch = false;  // statistics of this batch
    double epsilon = 0;
  };
  at::Tensor normalised(const at::Tensor& x, const Tensors& tensors) const;
};

template <typename Plain>
class BatchNormMember : public Plain, public BatchNormBase {
 public:
  using Plain::Plain;
  at::Tensor forward(const at::Tensor& x) {
    if (!joined()) return Plain::forward(x);
    this->_check_input_dim(x);
    const bool tracks = this->options.track_running_stats();
    Tensors tensors{.weight = this->weight,
                    .bias = this->bias,
                    .running_mean = this->running_mean,
                    .running_variance = this->running_var,
                    .of_batch = this->is_training() || !tracks,
                    .epsilon = this->options.eps()};
    if (this->is_training() && tracks) {
      this->num_batches_tracked += 1;
      tensors.update = this->options.momentum().value_or(1.0 / this->num_batches_tracked.template item<double>());
    }
    return placed(x, this->is_training(), [&](const at::Tensor& taken) { return normalised(taken, tensors); });
  }
};

}  // namespace axonn
