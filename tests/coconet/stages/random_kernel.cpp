#include "coconet/stages/random_kernel.hpp"

#include <algorithm>

#include "coconet/stages/chain_runs.hpp"

namespace axonn::coconet::test {

bool is_exact(PointwiseOp op) {
  return op != PointwiseOp::power && (op < PointwiseOp::exponential || op > PointwiseOp::tanh) &&
         op != PointwiseOp::gelu && op != PointwiseOp::gelu_tanh && op != PointwiseOp::sigmoid &&
         op != PointwiseOp::fast_exponential;
}

RandomKernel::RandomKernel(uint64_t seed, int num_instructions, bool exact, bool wide) : random_(seed), wide_(wide) {
  for (int i = 0; i < 5; ++i) {
    streams_.push_back(kernel_.stream("s" + std::to_string(i), pick_type()));
    values_.push_back(kernel_.load(streams_.back()));
  }
  streams_.push_back(kernel_.stream("not loaded", pick_type()));
  values_.push_back(kernel_.scalar("scalar", pick_type()));
  values_.push_back(kernel_.range_value("range value", pick_type()));
  values_.push_back(kernel_.constant(0.75, pick_type()));
  values_.push_back(kernel_.dropout_mask("mask"));
  for (int i = 0; i < num_instructions; ++i) append(exact);
  for (size_t i = 0; i < streams_.size(); ++i)
    if (i % 2 == 1 || below(2) == 0) kernel_.store(streams_[i], typed(late_value(), kernel_.streams()[i].type));
  for (const auto kind : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
    if (below(2) == 0) kernel_.reduce(kind, late_value());
}

OracleInputs RandomKernel::inputs(int64_t count) {
  OracleInputs made{.count = count, .scalars = {1.1}, .range_values = {-0.3}};
  made.masks = {{.probability = 0.3, .seed = random_(), .stream = 7, .first = static_cast<int64_t>(below(9))}};
  for (const auto& each : kernel_.streams()) made.streams.push_back(random_elements(each.type, count, random_()));
  return made;
}

RandomKernel::Value RandomKernel::typed(Value value, ElementType type) {
  return kernel_.type_of(value) == type ? value : kernel_.cast(value, type);
}

void RandomKernel::append(bool exact) {
  PointwiseOp op{};
  do op = static_cast<PointwiseOp>(below(static_cast<uint64_t>(PointwiseOp::select) + 1));
  while (exact && !is_exact(op));
  const ElementType type = below(3) == 0 ? pick_type() : wide_ ? ElementType::fp64 : ElementType::fp32;
  std::vector<Value> operands;
  const size_t count = op >= PointwiseOp::fma ? 3 : op < PointwiseOp::negate ? 2 : 1;
  for (size_t i = 0; i < count; ++i)
    operands.push_back(typed(any_value(), op == PointwiseOp::select && i == 0 ? ElementType::boolean : type));
  values_.push_back(kernel_.apply(op, operands));
}

}  // namespace axonn::coconet::test
