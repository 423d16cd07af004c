#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "axonn/layers/layout.hpp"
#include "kernels/row_tail.hpp"
#include "layers/operation.hpp"
#include "layers/ops/low_rank.hpp"

namespace axonn {

// One call of a Linear.
struct LinearCall {
  Axis in_axis, out_axis;
  // Of input and output, for Layout::rows: the ranks of the out axis may divide the input's rows,
  // those of the in axis the output's.
  Layout input, output;
  std::vector<int64_t> leading;  // sizes of the output's dims before the features, on this rank
  ShardedParameter weight;
  std::optional<ShardedParameter> bias;  // nothing: there is none, or whoever reads the output adds it
  std::optional<LowRank> low_rank;
  std::shared_ptr<RowTail> tail;
  std::function<Pending(const RowProduct&)> elsewhere;  // takes the sum in place of the output; or empty
  std::shared_ptr<std::function<void()>> finish;        // gets the rest of the forward
};

// Its product, its sum and its tail, for record(). The output's values are there after *finish,
// which is called once.
std::unique_ptr<Operation> linear_operation(Context& context, LinearCall call);

}  // namespace axonn
