#pragma once

#include <array>
#include <memory>
#include <vector>

#include "axonn/grid/query_rows.hpp"
#include "layers/operation.hpp"

namespace axonn {

// The two parts of the query rows of a sequence that each rank along an axis attends
// (query_rows()), and what these ranks exchange. Every one of them makes the same calls.
class DividedRows {
 public:
  DividedRows(Context& context, Axis axis, int64_t sequence);

  int64_t sequence() const { return sequence_; }
  const std::array<Range, 2>& mine() const { return mine_; }
  // Starts to gather all ranks' rows of part 0 or 1: (batch, rows, ...) -> (ranks, batch, rows of
  // the largest part, ...).
  Pending gather(const Tensor& part) const;
  // Puts what was gathered into its rows of (batch, sequence, ...).
  void put(const Tensor& to, const Tensor& gathered, size_t part) const;
  // Starts to sum `tensor` over the ranks, in place.
  Pending sum(const Tensor& tensor) const;

 private:
  int ranks() const { return context_->shape()[axis_]; }

  ContextHandle context_;
  Axis axis_;
  int64_t sequence_;
  std::array<Range, 2> mine_;
};

// Queries, keys and values (batch, sequence, heads, features of a head) -> for both parts this
// rank's rows of the queries, and the keys and values that they may see: all, or if `causal` those
// up to the end of the part. Backward gathers the gradients of the queries, and sums those of keys
// and values over the ranks; all three lie in one tensor (heads_in_one()).
std::unique_ptr<TensorOperation> take_rows(const DividedRows& rows, bool causal);

// Outputs of both parts (batch, rows, features) -> the outputs of all rows (batch, sequence,
// features). `coming` gathers them: it was started when each part was there. Backward takes this
// rank's rows, and exchanges nothing.
std::unique_ptr<TensorOperation> join_rows(const DividedRows& rows, std::array<Pending, 2> coming);

}  // namespace axonn
