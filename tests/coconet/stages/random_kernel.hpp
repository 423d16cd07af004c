#pragma once

#include <random>
#include <vector>

#include "coconet/stages/kernel_oracle.hpp"

namespace axonn::coconet::test {

inline constexpr ElementType kNumberTypes[] = {ElementType::fp64, ElementType::fp32, ElementType::bf16,
                                               ElementType::fp16};

// The operations that IEEE or their contract defines to the last bit; the others are polynomials.
bool is_exact(PointwiseOp op);

// A kernel with random instructions on random earlier values: streams, numbers, a dropout mask,
// casts, stores and reductions.
class RandomKernel {
 public:
  // `exact`: without polynomials. `wide`: fp64 among the types.
  RandomKernel(uint64_t seed, int num_instructions, bool exact, bool wide);

  const PointwiseKernel& kernel() const { return kernel_; }
  OracleInputs inputs(int64_t count);

 private:
  using Value = PointwiseKernel::Value;
  uint64_t below(uint64_t end) { return random_() % end; }
  ElementType pick_type() { return kNumberTypes[wide_ ? below(4) : 1 + below(3)]; }
  Value any_value() { return values_[below(values_.size())]; }
  Value late_value() { return values_[values_.size() - 1 - below(std::min<uint64_t>(values_.size(), 6))]; }
  Value typed(Value value, ElementType type);
  void append(bool exact);

  std::mt19937_64 random_;
  bool wide_;
  PointwiseKernel kernel_;
  std::vector<PointwiseKernel::Stream> streams_;
  std::vector<Value> values_;
};

}  // namespace axonn::coconet::test
