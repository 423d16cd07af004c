#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "axonn/core/names.hpp"
#include "axonn/core/reduce_op.hpp"

namespace axonn::coconet {

// All operations: CoCoNet's table 1, and what optimizers and mixed precision need.
enum class Operation : uint8_t {
  // leaves
  reference,
  constant,
  ranks,
  // element by element
  add,
  subtract,
  multiply,
  divide,
  negate,
  fma,
  power,
  square_root,
  exponential,
  logarithm,
  absolute,
  sign,
  maximum,
  minimum,
  tanh,
  relu,
  gelu,
  sigmoid,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  select,
  cast,
  dropout,
  // a part of a replicated tensor
  slice,
  load,
  // stores
  update,
  // many elements to one
  reduce_tensor,
  norm,
  // layers
  matmul,
  conv2d,
  // communication
  all_reduce,
  reduce_scatter,
  reduce,
  all_gather,
  broadcast,
  send,
};

// The kinds of operations for the rest of CoCoNet. Code asks for the kind; only typing, the oracle
// and the stages name single operations.
enum class OperationKind : uint8_t { leaf, pointwise, part, update, reduction, layer, collective, send };

// Settings of an operation that are not values, in the order in which they are written.
enum class Attribute : uint8_t { reduction, dim, dims, root, element, probability, stream, group };

struct OperationInfo {
  Operation operation;
  std::string_view name;  // as it is written
  OperationKind kind;
  int operands;
  std::initializer_list<Attribute> attributes = {};
  int precedence = 0;  // infix and prefix operators; 0: it is written as a call
  // The oracle's meaning of one element, in fp64; null if it is not element by element.
  double (*meaning)(const double* operands) = nullptr;
};

std::span<const OperationInfo> operations();
const OperationInfo& info(Operation operation);

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<ReduceOp> {
  static constexpr Named<ReduceOp> all[] = {{"+", ReduceOp::sum}, {"max", ReduceOp::max}, {"min", ReduceOp::min}};
};

}  // namespace axonn
