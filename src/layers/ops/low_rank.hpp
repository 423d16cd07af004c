#pragma once

#include <utility>
#include <vector>

#include "axonn/layers/low_rank_options.hpp"
#include "layers/operation.hpp"

namespace axonn {

// LowRankOptions of a layer as its operation computes them. Shapes: k = in features and n = out
// features of this rank, m = rows, r = rank, s = segments.
class LowRank {
 public:
  // `widths`: this rank's features of each segment.
  LowRank(ShardedParameter a, ShardedParameter b, LowRankOptions options, std::vector<int64_t> widths)
      : a_(std::move(a)), b_(std::move(b)), options_(options), widths_(std::move(widths)) {}

  struct Weights {
    Tensor a, b;  // (s r, k) and (n, r)
  };
  Weights weights() const { return {*a_.gathered(), *b_.gathered()}; }
  // product (m, n) += scale rows (m, k) A^T B^T, this rank's part of a sum over the in axis; in any
  // thread
  void add_to(const Tensor& product, const Tensor& rows, const Weights& weights) const;
  Tensor grad_of_narrow(const Tensor& grad) const;  // grad (m, n) B: (m, s r)
  // grad_input (m, k) += scale grad B A, this rank's part of a sum over the out axis
  void add_gradient(const Tensor& grad_input, const Tensor& grad_narrow) const;
  // The gradients of A and B.
  void reduce(Scheduler& scheduler, Axis in_axis, Axis out_axis, const Tensor& grad, const Tensor& grad_narrow,
              const Tensor& rows) const;

 private:
  template <typename Use>
  void for_segments(const Use& use) const;

  ShardedParameter a_, b_;
  LowRankOptions options_;
  std::vector<int64_t> widths_;
};

}  // namespace axonn
