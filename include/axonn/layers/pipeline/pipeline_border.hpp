#pragma once

#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/programs/sliced_transfer.hpp"
#include "axonn/layers/linear.hpp"

namespace axonn {

// The ranks of the job that form the grids of two neighbouring stages (ContextOptions::job_ranks).
struct PipelineStages {
  std::vector<int> first, second;
};

// The border between two stages of a network: a Linear ends the first stage, and the second one
// goes on with its output. Each stage has a Context of its own. The sum over the Linear's in axis,
// C = bias, dropout and stream, and the transfer run in slices, overlapped: ol(RS, fuse(C-P2P), AG)
// of CoCoNet's section on pipeline parallelism (SlicedTransfer).
//
// Rank i of the first stage's grid sends to rank i of the second stage's. Every rank of a stage
// calls its functions, in the same order on both sides. CPU only. `environment` and `context`
// outlive it.
class PipelineBorder {
 public:
  // Every rank of both stages constructs it. UserError on all of them if the stages differ in size,
  // share ranks, or have contexts with another grid, axis order, placement, dtype or number of
  // ranks that divide sequences; and unless `context` is over the first stage's ranks or over the
  // second's.
  PipelineBorder(Environment& environment, Context& context, PipelineStages stages);

  bool first() const { return first_; }  // whether this rank is in the first stage

  // The first stage's last call in a forward pass: stream + dropout(layer(input)), or layer(input),
  // goes to the second stage. Returns when it is sent. Call backward() on the result, a 0 without a
  // meaning: it waits for the second stage's gradient. UserError on the second stage, and inside an
  // activation checkpoint, which would send twice.
  at::Tensor send(Linear& layer, const Value& input);
  at::Tensor send(Linear& layer, const Value& input, const AddTo& add);

  // The second stage's first call: what send() sends, of `features` features in the Linear's output
  // layout. `rows` are the sizes of the dims before the features on this rank, as of the Linear's
  // input. backward() sends the gradient back. UserError on the first stage, for a layout with
  // divided rows, and if another shape or axis arrives.
  Value receive(at::IntArrayRef rows, int64_t features, const Layout& layout);

 private:
  at::Tensor send(Linear& layer, const Value& input, const AddTo* add);
  SlicedTransfer& over(Axis in_axis);

  Environment& environment_;
  ContextHandle context_;
  bool first_;
  Group pair_;                                // this rank and its partner
  std::map<Axis, SlicedTransfer> transfers_;  // by the axis of the sum, made at first use
};

}  // namespace axonn
