#pragma once

#include <cstdint>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/core/names.hpp"

namespace axonn {

// The type in which causal attention of bf16 and fp16 multiplies on a CPU: the heads' own, or fp32,
// with results rounded once. Small 16-bit products are slow on processors without the units for
// them. The two round differently.
enum class AttentionProducts : uint8_t { own, fp32 };

template <>
struct Names<AttentionProducts> {
  static constexpr Named<AttentionProducts> all[] = {{"own", AttentionProducts::own},
                                                     {"fp32", AttentionProducts::fp32}};
};

// Measures both on all ranks at the same time, for some hundredths of a second, and returns the
// faster one on rank 0 of `everyone`. Every rank calls it. It returns `own` at once where there is
// no choice (a GPU, fp32, fp64).
AttentionProducts choose_attention_products(Communicator& everyone, at::ScalarType dtype, c10::Device device);

}  // namespace axonn
