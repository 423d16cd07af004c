#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace axonn {

struct RotaryOptions {
  double theta = 10000;
  // Above 1, as in Llama 3.1: pairs that make less than `low` turns in `original` tokens turn
  // slower by this factor, those with more than `high` as before, and those between by a mixture of
  // both.
  double factor = 1, low = 1, high = 4;
  int64_t original = 0;
};

// Rotary positions (Su et al., RoFormer, 2021), in Hugging Face's order of features: at position p,
// feature i of a head and feature i + d/2, of d, are turned by p theta^(-2i/d) radians. Angles are
// computed in fp64; cosines and sines are kept in fp32, or fp64 for fp64, and heads of bf16 and
// fp16 are turned in fp32. The table grows with the longest text so far; any thread may call.
class Rotary {
 public:
  Rotary(int64_t features /* of a head */, RotaryOptions options);  // UserError unless features are even
  ~Rotary();
  Rotary(const Rotary&) = delete;
  Rotary& operator=(const Rotary&) = delete;

  // Radians per token of each pair.
  std::vector<double> frequencies() const;

  // Turns heads (batch, sequence, heads, features), whose features lie side by side, in place.
  // Token s of sample b is at position first[b] + s; empty: at s. `back`: the other way, which
  // takes a gradient through the rotation.
  void turn(const at::Tensor& heads, const std::vector<int64_t>& first = {}, bool back = false) const;

 private:
  struct Table;
  std::shared_ptr<const Table> table_for(int64_t positions, const at::Tensor& heads) const;

  int64_t features_;
  RotaryOptions options_;
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace axonn
