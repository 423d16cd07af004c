#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/overlap/step/network_schedule.hpp"

namespace axonn {

// An exponential moving average of a network's master weights. Each rank averages the elements it
// stores; nothing is exchanged. Optimizer::keep_average makes one; the optimizer updates and saves
// it.
class Ema {
 public:
  // Starts with the current weights. The arena and its schedule outlive it. UserError unless 0 <
  // decay < 1.
  Ema(Arena& arena, NetworkSchedule& schedule, double decay);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  // After update number `step` (from 1): average = d average + (1 - d) weights with d = min(decay,
  // (1 + step) / (10 + step)), so the first weights are soon forgotten.
  void update(int64_t step);
  const at::Tensor& average() const { return average_; }  // laid out as the arena's master weights

  // While it lives, the network computes with the average, and average() holds the training
  // weights. Then both are restored, bit for bit. Every rank of the grid makes one. Null: nothing
  // happens.
  class InUse {
   public:
    explicit InUse(Ema* ema);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    Ema* ema_;
  };

 private:
  void exchange();

  Arena& arena_;
  NetworkSchedule& schedule_;
  double decay_;
  at::Tensor average_;
  bool in_use_ = false;
};

}  // namespace axonn
