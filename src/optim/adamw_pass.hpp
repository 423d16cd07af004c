#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernel of AdamW that clips before the update and rounds after it, in one pass.
namespace axonn {

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
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  int64_t step = 1;  // the number of this update, from 1
};

// Loshchilov and Hutter's update of weights, mean and square, in fp32, then the rounded weights. On
// the current stream of CUDA device `device`; BackendError if the launch fails or CUDA is not built
// in.
void adamw_pass(const AdamWPass& pass, int device);

}  // namespace axonn
