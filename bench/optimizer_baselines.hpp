#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"

namespace axonn::bench {

struct BaselineOptions {
  int64_t elements = 0;
  bool lamb = false;  // else AdamW
  bool clip = false;
  bool rounded = false;  // bf16 weights beside fp32 master weights
};

// A user's own code: an all-reduce of the gradients, then LibTorch's fused AdamW, or LAMB of
// LibTorch's operations.
class Baseline {
 public:
  Baseline(Environment& environment, const BaselineOptions& options);

  // Only an all-reduce, of a tensor of its own: the caches treat it as they treat the steps.
  void all_reduce() { sum(other_); }
  void step(int64_t number);

 private:
  void sum(const at::Tensor& gradients);
  double clip_factor() const;
  void adamw(int64_t number, double factor);
  void lamb(int64_t number, double factor);

  Environment& environment_;
  BaselineOptions options_;
  at::Tensor other_, gradients_, weights_, mean_, square_, rounded_, count_;
};

}  // namespace axonn::bench
