#pragma once

#include <cmath>
#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernel of AdamW that clips before the update and rounds after it, in one pass.
namespace axonn {

// What changes from one update to the next.
struct AdamWStep {
  float kept = 1;   // share of a weight that decay leaves
  float rate = 0;   // learning rate / (1 - beta1^step)
  float scale = 1;  // 1 / sqrt(1 - beta2^step)
};

// Of update number `step`, from 1.
inline AdamWStep adamw_step(double learning_rate, double weight_decay, double beta1, double beta2, int64_t step) {
  const auto power = [&](double beta) { return std::pow(beta, static_cast<double>(step)); };
  return {.kept = static_cast<float>(1 - learning_rate * weight_decay),
          .rate = static_cast<float>(learning_rate / (1 - power(beta1))),
          .scale = static_cast<float>(1 / std::sqrt(1 - power(beta2)))};
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
  bool decays = false;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  AdamWStep step;
  const float* staged = nullptr;  // kept, rate and scale, which the kernel reads in the place of `step`
};

// Loshchilov and Hutter's update of weights, mean and square, in fp32, then the rounded weights. On
// the current stream of CUDA device `device`; BackendError if the launch fails or CUDA is not built
// in.
void adamw_pass(const AdamWPass& pass, int device);

}  // namespace axonn
