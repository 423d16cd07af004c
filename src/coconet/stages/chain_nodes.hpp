#pragma once

#include <array>
#include <vector>

#include "coconet/stages/stage_key.hpp"

namespace axonn::coconet {

// A kernel's value as stages see it: fp32 or fp64 in registers, with the rounding to bf16 or fp16
// as a node of its own. A number is the same for all elements of a call.
struct ChainNode {
  enum class Kind : uint8_t { load, number, computed };
  Kind kind = Kind::computed;
  StageOp op = StageOp::copy;
  ElementType operand_type = ElementType::fp32;  // fp32 or fp64
  ElementType type = ElementType::fp32;          // the result's: fp32 or fp64
  std::array<int, 3> operands{-1, -1, -1};
  int index = -1;                // number, stream or mask
  Source memory = Source::none;  // type of a loaded stream
  bool is_number = false;        // also where it is computed from numbers only
};

// One item of the work, in order: a node to compute, or one to store, publish or reduce.
struct ChainItem {
  StageOp op = StageOp::copy;  // store, publish, a reduction; otherwise the node's
  int node = -1;
  int index = -1;             // stream, number or reduction
  Source out = Source::none;  // type of the stream

  bool computes() const { return op < StageOp::store; }
};

// Both halves of a run: what is computed once, on numbers, and what is computed per element.
struct ChainItems {
  std::vector<ChainNode> nodes;
  std::vector<ChainItem> once, per_element;
  std::vector<double> constants;
  int num_numbers = 0;  // scalars, range values, constants, published ones: in this order
};

// Nodes that nothing stored or reduced needs are left out.
ChainItems lower(const PointwiseKernel& kernel);

// Whether a chain for these items has fp64 values in registers.
bool needs_wide(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items);

}  // namespace axonn::coconet
