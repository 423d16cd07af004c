#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/overlap/step/network_schedule.hpp"

namespace axonn {

// An exponential moving average of a network's master weights. Each element is averaged by the ranks that store it; nothing is exchanged.
// Optimizer::keep_average makes one, updates it and saves it.
class Ema {
 public:
  // Begins with the present weights. The arena and its schedule outlive it. UserError unless 0 < decay < 1.
  Ema(Arena& arena, NetworkSchedule& schedule, double decay);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  // After update number `step` (from 1): average = d average + (1 - d) weights with d = min(decay, (1 + step) / (10 + step)), so that the
  // first weights are soon forgotten.
  void update(int64_t step);
  const at::Tensor& average() const { return average_; }  // laid out as the arena's master weights

  // While it lives the network computes with the average, and average() holds the weights of training; then both are back, bit for bit.
  // Every rank of the grid makes one. Null: nothing happens.
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
