#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "axonn/comm/communicators.hpp"
#include "axonn/comm/scattered_tensors.hpp"
#include "axonn/optim/make_optimizer.hpp"

namespace torch::nn {
class Module;
}

namespace axonn {

// Updates tensors of the user's where they lie, such as the parameters of a plain
// torch::nn::Module, of which each rank of a group holds a copy (data parallelism; CoCoNet,
// "Operations on Scattered Tensors"). The gradients are summed over the ranks, clipped, and used in
// two fused collectives over all tensors, without copies. Each of R ranks keeps 1/R of the
// optimizer's state.
//
//   axonn::Environment environment;
//   axonn::ScatteredOptimizer optimizer(environment.world(), *net, {.learning_rate = 1e-3});
//   for (...) {
//     (loss_sum_of_my_rows / rows_of_all_ranks).backward();
//     optimizer.step({.max_norm = 1});
//   }
//
// On one group, bits, messages and state are those of one tensor that has all elements at the same
// places (ScatteredTensors). Every rank of the group makes it and calls its methods, in the same
// order. The communicator outlives it. Buffers of a module, such as the statistics of BatchNorm,
// stay each rank's own.
class ScatteredOptimizer {
 public:
  // Of all tensors that require a gradient. Values come from rank 0, and gradients are made, as
  // zeros. Tensors of two or more dims are decayed. settings.schedule is fuse or rs-opt-ag; without
  // one, schedule_on() chooses.
  //
  // UserError on all ranks that names the tensor which is not contiguous, shares memory with
  // another one, is of another type, or is not the same on all ranks (number, name, sizes, type);
  // if no tensor requires a gradient; for schedule ar-opt.
  ScatteredOptimizer(Communicator& ranks, std::vector<NamedTensor> tensors, const OptimizerSettings& settings);
  // Parameters that the module has under two names count once.
  ScatteredOptimizer(Communicator& ranks, const torch::nn::Module& module, const OptimizerSettings& settings);
  ~ScatteredOptimizer();
  ScatteredOptimizer(const ScatteredOptimizer&) = delete;
  ScatteredOptimizer& operator=(const ScatteredOptimizer&) = delete;

  // After one or more backward passes. New weights are there when it returns, and gradients are
  // zero for the next pass. UserError that names a tensor without a gradient since the last step,
  // and one whose memory or whose gradient's memory has changed. Then nothing has been sent.
  UpdateReport step(const UpdateOptions& options = {});

  // While the result lives, the tensors hold the average of the weights (settings.ema).
  [[nodiscard]] Optimizer::AverageInUse use_average() { return optimizer_->use_average(); }

  // To save and load: train/scattered_checkpoint.hpp. Weights that lie only in the tensors have
  // no tensor in the state.
  std::vector<OptimizerState> state() const { return optimizer_->state(); }
  void state_changed() { optimizer_->state_changed(); }
  int64_t steps_taken() const { return optimizer_->steps_taken(); }
  void set_steps_taken(int64_t steps) { optimizer_->set_steps_taken(steps); }

  Communicator& ranks() const { return ranks_; }
  const Grid& grid() const { return grid_; }  // all ranks along data
  const Arena& arena() const { return *arena_; }

 private:
  struct Watch;
  void check_step() const;

  Communicator& ranks_;
  Grid grid_;
  Communicators communicators_;
  Scheduler scheduler_;
  std::vector<NamedTensor> tensors_;
  std::unique_ptr<Watch> watch_;
  std::shared_ptr<Arena> arena_;
  NetworkSchedule* schedule_ = nullptr;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace axonn
