#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "axonn/comm/communicators.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gathered_weight.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/overlap/step/phase.hpp"
#include "axonn/overlap/step/row_product.hpp"
#include "axonn/overlap/step/tensor_pool.hpp"
#include "axonn/overlap/step/traffic.hpp"
#include "axonn/terms/forward_schedule.hpp"

namespace axonn {

// A tensor that a collective is still working on. The step in which wait() is called logs it.
class Pending {
 public:
  explicit Pending(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  Pending(at::Tensor tensor, TrafficLog& log, LoggedRequest request)
      : tensor_(std::move(tensor)), log_(&log), request_(std::move(request)) {}
  const at::Tensor& tensor() const { return tensor_; }  // its values are there after wait()
  at::Tensor wait() {
    if (log_ != nullptr) log_->wait(std::exchange(request_, {}));
    return std::move(tensor_);
  }

 private:
  at::Tensor tensor_;
  TrafficLog* log_ = nullptr;
  LoggedRequest request_;
};

// Neighbours in a ring of ranks, as indices in a group.
struct RingNeighbours {
  int next = 0, previous = 0;
};

// A tensor on its way to the next rank of a ring, and the one that comes from the rank before.
class Passing {
 public:
  Passing(LoggedRequest sent, TrafficLog& log, Pending coming)
      : sent_(std::move(sent)), log_(&log), coming_(std::move(coming)) {}
  // Returns the one that has come. The one that was sent may change from now on.
  at::Tensor wait() {
    log_->wait(std::exchange(sent_, {}));
    return coming_.wait();
  }

 private:
  LoggedRequest sent_;
  TrafficLog* log_;
  Pending coming_;
};

// Decides WHEN the bytes of a training step move; layers say only WHAT they need (AxoNN, Algorithm
// 1). The host thread calls it, in the same order on every rank of the grid. Every OverlapPolicy
// gives the same bits.
class Scheduler {
 public:
  // `communicators` and `grid` must outlive the scheduler. `linear` is the schedule of sum().
  Scheduler(Communicators& communicators, const Grid& grid, OverlapPolicy policy = {},
            LinearSchedule linear = LinearSchedule::mm_ar_c);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The communicators go. Everything that would communicate or belongs to a step is a UserError
  // from now on. Buffers that the scheduler lent may come back later.
  void close() noexcept;
  void check_open() const;  // UserError after close()

  // Uses another policy from the next step on, the same on every rank. UserError inside a step.
  // Gathered weights are dropped, and buckets are laid out anew. The order of gathers, the number
  // of uses per weight and the buffers in the pool are kept.
  void set_policy(const OverlapPolicy& policy);

  // The schedule that the parameters of one network hold. It lives as long as the scheduler and the
  // arena.
  NetworkSchedule& add(const std::shared_ptr<Arena>& arena);

  // Reduces `tensor`, which must be contiguous, in place over the group along `axes`.
  Pending all_reduce(at::Tensor tensor, AxisSet axes, std::string_view tag, ReduceOp op = ReduceOp::sum);
  // Computes a product and reduces it over the group along `axes`, which has two ranks or more, as
  // the linear schedule says. product.owner is done where owner_computes().
  Pending sum(const RowProduct& product, AxisSet axes, std::string_view tag);
  // Whether the owner of an element does what follows the sum: by mm_rs_c_ag and overlap. The same
  // on all ranks along `axes`.
  bool owner_computes(const RowProduct& product, AxisSet axes) const;
  // The linear schedule and the axes over which layers have sums: "overlap over x and y", "overlap
  // (x = y = 1: no layer has a sum)", or what auto is on this grid: "auto (over x: overlap from
  // 256k, else mm-ar-c)". Every rank calls it: it may make communicators.
  std::string linear_text() const;
  const LinearCounts& linear_counts() const { return linear_counts_; }  // in this step or the last one
  // Stacks every rank's `input` in a new dim 0; all inputs have equal sizes.
  Pending all_gather(const at::Tensor& input, AxisSet axes, std::string_view tag);

  // The halves of an all-reduce of (rows, width), which is contiguous, over the group along `axes`.
  // scatter_rows gives each rank its even_part() of the rows of the sum; what `input` holds
  // afterwards is unspecified. gather_rows takes that part of every rank, and gives all `rows`.
  Pending scatter_rows(const at::Tensor& input, AxisSet axes, std::string_view tag);
  Pending gather_rows(const at::Tensor& mine, int64_t rows, AxisSet axes, std::string_view tag);
  // scatter_rows() of a product, over two ranks or more: by the linear schedule overlap while it is
  // computed, if the parts are equal. Whoever gets the rows does product.owner's work afterwards.
  Pending scatter(const RowProduct& product, AxisSet axes, std::string_view tag);

  // Sends `mine` to the next rank of a ring, and puts what the rank before sends into `coming`, of
  // the same sizes and type. Both are contiguous; `neighbours` are indices in the group along
  // `axes`. Every rank of the ring calls it. The log has both messages; only the one that comes has
  // bytes, so those of all ranks are what moved.
  Passing pass_on(const at::Tensor& mine, const at::Tensor& coming, AxisSet axes, RingNeighbours neighbours,
                  std::string_view tag);

  // Logs a collective that somebody else has launched.
  LoggedRequest logged(Traffic kind, AxisSet axes, int64_t bytes, std::string_view tag, Request request) {
    return log_.launch(kind, axes, bytes, tag, std::move(request));
  }
  void wait(const LoggedRequest& request) { log_.wait(request); }

  // `micro_batches` is the number of backward passes in the step. Gradients are summed over the
  // grid after the last one.
  void begin_step(int micro_batches = 1);
  bool in_step() const { return in_step_; }
  // All gradients are valid afterwards, or this rank's own ones where an optimizer runs inside the
  // step (StepOptimizer); then weights may have changed as well. The UserError names the parameters
  // that got no gradient, or fewer gradients than forward uses; then the step is still open.
  void finish();
  // Gives up the step, after the same collectives on every rank. Waits for what is under way.
  // UserError where sums of gradients have changed weights already.
  void abandon();
  int64_t steps_begun() const { return steps_begun_; }
  // Sets how gradients are summed; the default is plain collectives. UserError inside a step.
  void set_gradient_sums(std::unique_ptr<GradientSums> sums);

  Phase phase() const { return phase_; }
  // Sets the phase while it lives.
  class InPhase {
   public:
    InPhase(Scheduler& scheduler, Phase phase) : scheduler_(scheduler), before_(scheduler.phase_) {
      scheduler.enter(phase);
    }
    ~InPhase() { scheduler_.phase_ = before_; }
    InPhase(const InPhase&) = delete;
    InPhase& operator=(const InPhase&) = delete;

   private:
    Scheduler& scheduler_;
    Phase before_;
  };

  // While it lives, a forward without autograd counts uses too, because backward will run it again.
  class Checkpointing {
   public:
    explicit Checkpointing(Scheduler& scheduler) : scheduler_(scheduler) { ++scheduler.checkpointing_; }
    ~Checkpointing() { --scheduler_.checkpointing_; }
    Checkpointing(const Checkpointing&) = delete;
    Checkpointing& operator=(const Checkpointing&) = delete;

   private:
    Scheduler& scheduler_;
  };
  bool checkpointing() const { return checkpointing_ > 0; }

  const OverlapPolicy& policy() const { return policy_; }
  const TensorPool& pool() const { return *pool_; }
  TensorPool& pool() { return *pool_; }  // for buffers that a layer needs while it communicates
  const TrafficLog& traffic() const { return log_; }
  GatherCounters gather_counters() const;

 private:
  friend class NetworkSchedule;
  void enter(Phase phase);
  LinearSchedule resolved(AxisSet axes, int64_t bytes) const;  // without `automatic`
  void erase_expired();
  template <typename... Arguments>
  void tell_listeners(void (StepListener::*what)(Arguments...), Arguments... arguments);
  // `tensor` is the result; `bytes`, the size of the whole buffer.
  Pending launched(at::Tensor tensor, size_t bytes, AxisSet axes, std::string_view tag, Request request);
  Pending launched(at::Tensor tensor, AxisSet axes, std::string_view tag, Request request);

  Communicators& communicators_;
  const Grid& grid_;
  OverlapPolicy policy_;
  TrafficLog log_;
  const std::shared_ptr<ProducerCounter> written_ = std::make_shared<ProducerCounter>();
  const LinearSchedule linear_;
  LinearCounts linear_counts_{};
  const std::shared_ptr<TensorPool> pool_ = std::make_shared<TensorPool>();
  std::unique_ptr<GradientSums> gradient_sums_;
  std::vector<std::unique_ptr<NetworkSchedule>> networks_;
  bool open_ = true;
  bool in_step_ = false;
  int64_t steps_begun_ = 0;
  int micro_batches_ = 1;
  int backwards_ = 0;  // backward passes begun in this step
  bool in_backward_pass_ = false;
  int checkpointing_ = 0;
  Phase phase_ = Phase::evaluate;
};

}  // namespace axonn
