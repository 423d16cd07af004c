#include "axonn/coconet/stages/pointwise_kernel.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.pointwise_kernel";

size_t num_operands(PointwiseOp op) {
  if (op >= PointwiseOp::fma) return 3;
  return op < PointwiseOp::negate ? 2 : 1;
}

bool gives_boolean(PointwiseOp op) {
  return (op >= PointwiseOp::less && op <= PointwiseOp::not_equal) || op == PointwiseOp::is_finite;
}

void check_number_type(ElementType type) {
  AXONN_CHECK(type != ElementType::boolean, kWhere,
              "streams and numbers must be fp64, fp32, bf16 or fp16, got boolean");
}

}  // namespace

PointwiseKernel::Stream PointwiseKernel::stream(std::string name, ElementType type) {
  check_number_type(type);
  AXONN_CHECK(streams_.size() < kMostStreams, kWhere, "a kernel has at most ", kMostStreams, " streams; '", name,
              "' is one more");
  streams_.push_back({std::move(name), type});
  return {static_cast<int>(streams_.size()) - 1};
}

const PointwiseKernel::StreamType& PointwiseKernel::check(Stream stream) const {
  AXONN_CHECK(stream.index >= 0 && std::cmp_less(stream.index, streams_.size()), kWhere,
              "undefined stream: use one of this kernel's ", streams_.size(), ", got number ", stream.index);
  return streams_[static_cast<size_t>(stream.index)];
}

PointwiseKernel::Value PointwiseKernel::load(Stream stream) {
  const ElementType type = check(stream).type;
  streams_[static_cast<size_t>(stream.index)].loaded = true;
  return append({.kind = PointwiseInstruction::Kind::load, .type = type, .index = stream.index});
}

void PointwiseKernel::may_share(Stream loaded, Stream stored) {
  const ElementType one = check(loaded).type, other = check(stored).type;
  AXONN_CHECK(one == other, kWhere, "streams that share their memory need one type, got ", axonn::to_string(one),
              " and ", axonn::to_string(other));
  shared_.emplace_back(loaded.index, stored.index);
}

bool PointwiseKernel::shares(int loaded, int stored) const {
  return std::ranges::count(shared_, std::pair(loaded, stored)) > 0;
}

void PointwiseKernel::store(Stream stream, Value value) {
  const StreamType& to = check(stream);
  AXONN_CHECK(to.type == type_of(value), kWhere, "stream '", to.name, "' has elements of ", to_string(to.type),
              ", got a value of ", to_string(type_of(value)), "; cast it");
  AXONN_CHECK(!to.stored, kWhere, "stream '", to.name, "' is stored twice; store one value only");
  streams_[static_cast<size_t>(stream.index)].stored = true;
  stores_.push_back({stream, value});
}

PointwiseKernel::Value PointwiseKernel::number(PointwiseInstruction::Kind kind, std::vector<std::string>& names,
                                               std::string name, ElementType type) {
  check_number_type(type);
  names.push_back(std::move(name));
  return append({.kind = kind, .type = type, .index = static_cast<int>(names.size()) - 1});
}

PointwiseKernel::Value PointwiseKernel::scalar(std::string name, ElementType type) {
  return number(PointwiseInstruction::Kind::scalar, scalars_, std::move(name), type);
}

PointwiseKernel::Value PointwiseKernel::range_value(std::string name, ElementType type) {
  return number(PointwiseInstruction::Kind::range_value, range_values_, std::move(name), type);
}

PointwiseKernel::Value PointwiseKernel::constant(double number, ElementType type) {
  check_number_type(type);
  return append({.kind = PointwiseInstruction::Kind::constant, .type = type, .number = number});
}

PointwiseKernel::Value PointwiseKernel::dropout_mask(std::string name) {
  AXONN_CHECK(masks_.size() < kMostMasks, kWhere, "a kernel has at most ", kMostMasks, " dropout masks; '", name,
              "' is one more");
  return number(PointwiseInstruction::Kind::dropout_mask, masks_, std::move(name), ElementType::fp32);
}

PointwiseKernel::Value PointwiseKernel::apply(PointwiseOp op, std::span<const Value> operands) {
  AXONN_CHECK(operands.size() == num_operands(op), kWhere, to_string(op), " needs ", num_operands(op),
              " operands, got ", operands.size());
  const bool selects = op == PointwiseOp::select;
  const ElementType type = type_of(operands[selects ? 1 : 0]);
  AXONN_CHECK(type != ElementType::boolean, kWhere, to_string(op), " takes no boolean operands: cast them");
  AXONN_CHECK(!selects || type_of(operands[0]) == ElementType::boolean, kWhere,
              "the first operand of select must be a boolean, got ", to_string(type_of(operands[0])));
  PointwiseInstruction made{.kind = PointwiseInstruction::Kind::operation, .op = op};
  for (size_t i = 0; i < operands.size(); ++i) {
    AXONN_CHECK((selects && i == 0) || type_of(operands[i]) == type, kWhere, to_string(op),
                " takes operands of one type, got ", to_string(type), " and ", to_string(type_of(operands[i])),
                ": cast one of them");
    made.operands[i] = operands[i].index;
  }
  if (op == PointwiseOp::power) {
    const PointwiseInstruction& exponent = instructions_[static_cast<size_t>(operands[1].index)];
    if (exponent.kind == PointwiseInstruction::Kind::constant) {
      const Value rewritten = power_by_constant(operands[0], exponent.number);
      if (rewritten.index >= 0) return rewritten;
    }
  }
  made.type = gives_boolean(op) ? ElementType::boolean : type;
  return append(made);
}

PointwiseKernel::Value PointwiseKernel::power_by_constant(Value base, double exponent) {
  if (exponent == 0) return constant(1, type_of(base));
  if (exponent == 1) return base;
  if (exponent == 2) return apply(PointwiseOp::multiply, {base, base});
  if (exponent == 3) return apply(PointwiseOp::multiply, {apply(PointwiseOp::multiply, {base, base}), base});
  if (exponent == -1) return apply(PointwiseOp::divide, {constant(1, type_of(base)), base});
  if (exponent == 0.5) return apply(PointwiseOp::square_root, {base});
  return {};
}

PointwiseKernel::Value PointwiseKernel::cast(Value value, ElementType type) {
  check(value);
  return append({.kind = PointwiseInstruction::Kind::cast, .type = type, .operands = {value.index, -1, -1}});
}

int PointwiseKernel::reduce(ReduceOp kind, Value value) {
  check(value);
  AXONN_CHECK(reductions_.size() < kMostReductions, kWhere, "a kernel has at most ", kMostReductions, " reductions");
  reductions_.push_back({kind, value});
  return static_cast<int>(reductions_.size()) - 1;
}

const PointwiseInstruction& PointwiseKernel::check(Value value) const {
  AXONN_CHECK(value.index >= 0 && std::cmp_less(value.index, instructions_.size()), kWhere,
              "undefined value: use one of this kernel's ", instructions_.size(), ", got number ", value.index);
  return instructions_[static_cast<size_t>(value.index)];
}

PointwiseKernel::Value PointwiseKernel::append(PointwiseInstruction instruction) {
  instructions_.push_back(instruction);
  return {static_cast<int>(instructions_.size()) - 1};
}

}  // namespace axonn::coconet
