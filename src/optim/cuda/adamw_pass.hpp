#pragma once

#include <cmath>
#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernel of AdamW that clips before the update and rounds after it, in one pass: the loop of
// configs/programs/adamw.program, as CUDA text (coconet/cuda).
namespace axonn {

// The numbers that change from one update to the next.
struct AdamWStep {
  float rate = 0;                      // learning rate
  float unbiased1 = 1, unbiased2 = 1;  // 1 - beta^step
};

// Of update number `step`, from 1.
inline AdamWStep adamw_step(double learning_rate, double beta1, double beta2, int64_t step) {
  const auto unbiased = [&](double beta) { return static_cast<float>(1 - std::pow(beta, static_cast<double>(step))); };
  return {static_cast<float>(learning_rate), unbiased(beta1), unbiased(beta2)};
}

// `count` elements. All pointers are to CUDA device memory.
struct AdamWPass {
  int64_t count = 0;
  float* weights = nullptr;  // the master weights
  const float* gradients = nullptr;
  float* mean = nullptr;
  float* square = nullptr;
  void* rounded = nullptr;                                   // the network's weights
  c10::ScalarType rounded_type = c10::ScalarType::BFloat16;  // bf16 or fp16
  const float* divisor = nullptr;                            // one number that divides the gradients; nullptr: 1
  const float* refused = nullptr;                            // one number: if it is 1, nothing changes
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double decay = 0;  // weight decay
  AdamWStep step;
  const float* staged = nullptr;  // the three numbers of an AdamWStep, read in the place of `step`
};

// Loshchilov and Hutter's update of weights, mean and square, in fp32, then the rounded weights. On
// the current stream of CUDA device `device`; BackendError if the launch fails or CUDA is not built
// in.
void adamw_pass(const AdamWPass& pass, int device);

}  // namespace axonn
