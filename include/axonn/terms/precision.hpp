#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn {

// Type of weights and activations. With bf16 and fp16, the gradients, master weights and optimizer
// state are fp32, as in the trainer.
enum class Precision : uint8_t { bf16, fp16, fp32, fp64 };

template <>
struct Names<Precision> {
  static constexpr Named<Precision> all[] = {
      {"bf16", Precision::bf16}, {"fp16", Precision::fp16}, {"fp32", Precision::fp32}, {"fp64", Precision::fp64}};
};

// Bytes per element of weights, activations and their messages.
constexpr int64_t element_bytes(Precision precision) {
  return precision == Precision::fp64 ? 8 : precision == Precision::fp32 ? 4 : 2;
}

// Bytes per element of gradients and their messages, master weights and moments.
constexpr int64_t state_bytes(Precision precision) { return precision == Precision::fp64 ? 8 : 4; }

}  // namespace axonn
