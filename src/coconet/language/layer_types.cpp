#include <optional>
#include <string>

#include "coconet/language/derivation.hpp"

namespace axonn::coconet {
namespace {

// x_summed and weight_summed: the dims that a layer sums; weight_out: the weight's other dim, and
// result_out: where it is in the result.
std::optional<Distribution> layer_distribution(const Distribution& x, const Distribution& weight, int x_summed,
                                               int weight_summed, int weight_out, int result_out) {
  const bool x_whole = x.is(Placement::replicated), weight_whole = weight.is(Placement::replicated);
  if (x == Distribution::sliced(x_summed) && weight == Distribution::sliced(weight_summed))
    return Distribution::local();
  if (x_whole && weight == Distribution::sliced(weight_out)) return Distribution::sliced(result_out);
  if (x.is(Placement::sliced) && x.dim != x_summed && weight_whole) return x;
  if (x_whole && weight_whole) return x;
  const bool x_local = x.is(Placement::local), weight_local = weight.is(Placement::local);
  if ((x_local && (weight_local || weight_whole)) || (x_whole && weight_local)) return Distribution::local();
  if (x.is(Placement::rooted) && x == weight) return x;
  return std::nullopt;
}

}  // namespace

TensorType Derivation::product(const Expression& expression) const {
  TensorType x = operand(expression, 0);
  const TensorType weight = operand(expression, 1);
  same_element_and_group(x, weight);
  const std::string both = x.to_string() + " and " + weight.to_string();
  check(x.shape.size() >= 2 && weight.shape.size() == 2 && x.shape.back() == weight.shape[0], matmul_shapes, both);
  if (x.shape.size() < 2 || weight.shape.size() < 2) return x;
  const int last = static_cast<int>(x.shape.size()) - 1;
  const auto distribution = layer_distribution(x.distribution, weight.distribution, last, 0, 1, last);
  check(distribution.has_value(), matmul_distributions, both);
  x.distribution = distribution.value_or(x.distribution);
  x.shape.back() = weight.shape[1];
  return x;
}

TensorType Derivation::convolution(const Expression& expression) const {
  TensorType x = operand(expression, 0);
  const TensorType weight = operand(expression, 1);
  same_element_and_group(x, weight);
  const std::string both = x.to_string() + " and " + weight.to_string();
  const auto odd = [](const Size& size) { return size.is_number() && size.factor() % 2 == 1; };
  const bool fits = x.shape.size() == 4 && weight.shape.size() == 4 && x.shape[1] == weight.shape[1] &&
                    odd(weight.shape[2]) && odd(weight.shape[3]);
  check(fits, conv2d_shapes, both);
  if (x.shape.size() != 4 || weight.shape.size() != 4) return x;
  auto distribution = layer_distribution(x.distribution, weight.distribution, 1, 1, 0, 1);
  if (distribution && distribution->is(Placement::sliced) && distribution->dim > 1) distribution.reset();
  check(distribution.has_value(), conv2d_distributions, both);
  x.distribution = distribution.value_or(x.distribution);
  x.shape[1] = weight.shape[0];
  return x;
}

void Derivation::same_element_and_group(const TensorType& a, const TensorType& b) const {
  const std::string both = a.to_string() + " and " + b.to_string();
  check(a.element == b.element, element_types, both);
  check(a.group == b.group, groups, both);
}

}  // namespace axonn::coconet
