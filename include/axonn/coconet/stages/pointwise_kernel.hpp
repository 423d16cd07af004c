#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "axonn/coconet/language/element_type.hpp"
#include "axonn/coconet/stages/pointwise_op.hpp"
#include "axonn/core/reduce_op.hpp"

namespace axonn::coconet {

// One line of a kernel. `operands` are numbers of earlier lines, or -1.
struct PointwiseInstruction {
  enum class Kind : uint8_t { load, scalar, range_value, constant, dropout_mask, operation, cast };
  Kind kind = Kind::constant;
  PointwiseOp op = PointwiseOp::add;
  ElementType type = ElementType::fp32;
  std::array<int, 3> operands{-1, -1, -1};
  int index = -1;     // place among the streams, scalars, range values or masks
  double number = 0;  // the value of a constant
};

// An expression for every element of some streams, as a list of instructions of which each computes
// one value: what a StageChain executes. It is a value; the order of its instructions is the order
// of the stages. UserError in every function for an undefined value or stream and for wrong types.
class PointwiseKernel {
 public:
  struct Stream {
    int index = -1;
  };
  struct Value {
    int index = -1;
  };
  struct StreamType {
    std::string name;
    ElementType type;
    bool loaded = false;
    bool stored = false;
  };
  struct Reduction {
    ReduceOp kind;
    Value value;
  };
  struct Store {
    Stream stream;
    Value value;
  };

  static constexpr int kMostStreams = 16;
  static constexpr int kMostNumbers = 64;  // scalars, range values, constants and what they give
  static constexpr int kMostMasks = 4;
  static constexpr int kMostReductions = 8;

  // Elements in memory. Loads give what was there before the run: a stream that is loaded and
  // stored is updated in place.
  Stream stream(std::string name, ElementType type);
  Value load(Stream stream);
  void store(Stream stream, Value value);  // at most once per stream
  // In some calls the two streams are the same memory, from the first element on. All loads of one
  // then come before the stores to the other. UserError unless they have one type.
  void may_share(Stream loaded, Stream stored);
  bool shares(int loaded, int stored) const;

  // A number that every call gives: for the whole run (scalar), or for the range of elements that
  // this call computes, such as a tensor's weight decay (range value). Rounded to `type`. A value
  // that is computed from numbers only is computed once per call.
  Value scalar(std::string name, ElementType type);
  Value range_value(std::string name, ElementType type);
  Value constant(double number, ElementType type);

  // fp32: 0 where the element is dropped, otherwise 1 / (1 - probability), as layers/dropout draws
  // it: element e uses word e % 4 of Philox block e / 4. A call gives its MaskInput.
  Value dropout_mask(std::string name);

  // All operands have the same type, apart from select's first, a boolean.
  Value apply(PointwiseOp op, std::span<const Value> operands);
  Value apply(PointwiseOp op, std::initializer_list<Value> operands) {
    return apply(op, std::span(operands.begin(), operands.size()));
  }
  // fp64 becomes bf16 or fp16 by way of fp32, as in PyTorch. Boolean: value != 0.
  Value cast(Value value, ElementType type);

  // Over all elements of a call, in fp64. Returns the place among StageCall::partials.
  int reduce(ReduceOp kind, Value value);

  ElementType type_of(Value value) const { return check(value).type; }
  const std::vector<PointwiseInstruction>& instructions() const { return instructions_; }
  const std::vector<StreamType>& streams() const { return streams_; }
  const std::vector<Store>& stores() const { return stores_; }
  const std::vector<Reduction>& reductions() const { return reductions_; }
  const std::vector<std::string>& scalars() const { return scalars_; }
  const std::vector<std::string>& range_values() const { return range_values_; }
  const std::vector<std::string>& masks() const { return masks_; }

 private:
  Value append(PointwiseInstruction instruction);
  Value number(PointwiseInstruction::Kind kind, std::vector<std::string>& names, std::string name, ElementType type);
  const StreamType& check(Stream stream) const;
  const PointwiseInstruction& check(Value value) const;
  Value power_by_constant(Value base, double exponent);

  std::vector<PointwiseInstruction> instructions_;
  std::vector<StreamType> streams_;
  std::vector<Store> stores_;
  std::vector<Reduction> reductions_;
  std::vector<std::pair<int, int>> shared_;  // loaded, stored
  std::vector<std::string> scalars_, range_values_, masks_;
};

}  // namespace axonn::coconet
