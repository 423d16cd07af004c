#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/wrap/shard.hpp"

namespace axonn {

// The moving average (EMA) of a wrapped module's weights, for torch::optim: an optimizer of axonn
// keeps its own (Optimizer::use_average). Each rank keeps the average of its ranges in local().
//
//   axonn::Average average = axonn::average(parameters, 0.999);
//   for (...) {
//     ...
//     optimizer.step();
//     average.update();
//   }
//   {
//     const auto in_use = average.use();  // the weights are their averages while it lives
//     const auto whole = parameters.gathered();
//     ...  // evaluate
//     axonn::save_state_dict(parameters, "average.safetensors");
//   }
class Average {
 public:
  // It begins as the weights. UserError unless 0 <= decay < 1, or while an optimizer of axonn keeps
  // the master weights.
  Average(WrappedModule parameters, double decay);

  // average += rate * (weights - average) in the n-th call, with the rate of average_rate(). After
  // optimizer.step(). UserError while the average is in use.
  void update();
  int64_t updates() const { return updates_; }

  // While it lives, local() and with it the module have the averages; local() has its own values
  // afterwards, bit for bit. A step that begins meanwhile is a UserError. Averages are saved with
  // save_state_dict() and read with load_state_dict(), while one lives. Every rank of the grid
  // makes it. The average outlives it.
  class InUse {
   public:
    explicit InUse(Average& average);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    Average& average_;
  };
  [[nodiscard]] InUse use() { return InUse(*this); }

  // This rank's range of each parameter, beside those of local(). For a program's own files.
  const std::vector<at::Tensor>& local() const { return average_; }
  void set_updates(int64_t updates) { updates_ = updates; }  // to resume

 private:
  void exchange();

  WrappedModule parameters_;
  double decay_;
  std::vector<at::Tensor> average_;
  int64_t updates_ = 0;
  bool in_use_ = false;
};

inline Average average(const WrappedModule& parameters, double decay) { return {parameters, decay}; }

}  // namespace axonn
