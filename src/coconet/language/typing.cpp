#include "axonn/coconet/language/typing.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

enum class TypingRule : uint8_t {
  element_types,
  booleans,
  shapes,
  distributions,
  groups,
  probability,
  slice,
  load,
  update,
  reduced_dims,
  norm,
  matmul_shapes,
  matmul_distributions,
  conv2d_shapes,
  conv2d_distributions,
  all_reduce,
  reduce_scatter,
  reduce,
  all_gather,
  broadcast,
  send,
};
using enum TypingRule;

constexpr Rule kRules[] = {
    {"element-types", "operands have one element type: cast(x, TYPE) converts", "CoCoNet, rule E-BinaryOp"},
    {"booleans", "a comparison is only for select()", "no tensor in memory is boolean"},
    {"shapes", "shapes broadcast: from the last dim on, sizes are equal or 1", "PyTorch, broadcasting semantics"},
    {"distributions",
     "operands have one distribution, or one is whole on every rank and the other local, or sliced on a dim that the "
     "first has one element of: slice(x, dim=D) or load(x, root=R) takes a part",
     "CoCoNet, section 2.1: pointwise computations"},
    {"groups", "operands lie in one group of ranks: send(x, GroupRank(GROUP+1, RANK)) moves a tensor",
     "CoCoNet, section 4: pipeline parallelism"},
    {"probability", "the probability of dropout is at least 0 and less than 1", "1 / (1 - p) scales what stays"},
    {"slice", "slice takes a replicated tensor and one of its dims that is not 1", "CoCoNet, rule E-Scatter"},
    {"load", "load takes a replicated tensor and a rank", "CoCoNet, LoadTensorAtRank"},
    {"update", "update takes a declared tensor and a value of its type", "CoCoNet, section 3.1: Update"},
    {"reduced-dims", "a reduction names dims of its operand, each once", "CoCoNet, rule E-ReduceTensor"},
    {"norm", "a norm needs the whole of its dims: of slices write sqrt(all_reduce(+, reduce_tensor(+, x * x)))",
     "norms of parts do not add up"},
    {"matmul-shapes", "matmul takes [..., M, K] and [K, N]", "matrix product"},
    {"matmul-distributions",
     "matmul takes whole operands, K sliced in both, N sliced in the weight, or rows sliced in x",
     "CoCoNet, section 2.2: product of two sliced tensors is local"},
    {"conv2d-shapes", "conv2d takes [N, C, H, W] and [O, C, K, L] with odd numbers K and L", "stride 1, same size"},
    {"conv2d-distributions", "conv2d takes whole operands, C sliced in both, O sliced in the weight, or N sliced in x",
     "CoCoNet, section 2.2; slices of H or W would need their neighbours' edges"},
    {"all-reduce", "all_reduce takes a local tensor", "CoCoNet, rule E-AllReduce"},
    {"reduce-scatter", "reduce_scatter takes a local tensor and one of its dims that is not 1",
     "CoCoNet, rule E-ReduceScatter"},
    {"reduce", "reduce takes a local tensor and a rank", "CoCoNet, Reduce"},
    {"all-gather", "all_gather takes a sliced tensor", "CoCoNet, rule E-AllGather"},
    {"broadcast", "broadcast takes a tensor on one rank: reduce() or load() makes one", "CoCoNet, Broadcast"},
    {"send", "send moves a tensor to another group of the program", "CoCoNet, section 4: GroupRank"},
};
static_assert(std::size(kRules) == static_cast<size_t>(send) + 1);

// Types of scalars: fp64, unless all operands are narrower.
ElementType wider(ElementType a, ElementType b) {
  if (a == b) return a;
  const bool both_halves = bytes_of(a) == 2 && bytes_of(b) == 2;
  return both_halves ? ElementType::fp32 : std::min(a, b);
}

// The distribution that both operands of an element by element operation can have. Slices count
// their dim in the result.
std::optional<Distribution> common(const TensorType& a, const TensorType& b, size_t dims) {
  const auto seen_in_result = [&](const TensorType& type) {
    Distribution seen = type.distribution;
    if (seen.is(Placement::sliced)) seen.dim += static_cast<int>(dims - type.shape.size());
    return seen;
  };
  const Distribution x = seen_in_result(a), y = seen_in_result(b);
  if (x == y) return x;
  const auto replicated_with = [&](const TensorType& whole, const Distribution& other) {
    if (!whole.distribution.is(Placement::replicated)) return false;
    if (whole.is_scalar() || other.is(Placement::local)) return true;
    if (!other.is(Placement::sliced)) return false;
    const int dim = other.dim - static_cast<int>(dims - whole.shape.size());
    return dim < 0 || (dim < std::ssize(whole.shape) && whole.shape[static_cast<size_t>(dim)].is_one());
  };
  if (replicated_with(a, y)) return y;
  if (replicated_with(b, x)) return x;
  return std::nullopt;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const size_t missing = result.size() - shorter.size();
  for (size_t dim = 0; dim < shorter.size(); ++dim) {
    Size& size = result[dim + missing];
    if (size.is_one()) size = shorter[dim];
    if (!shorter[dim].is_one() && shorter[dim] != size) return std::nullopt;
  }
  return result;
}

class Derivation {
 public:
  explicit Derivation(const TypingContext& context) : context_(context) {}

  TensorType of(const Expression& expression) const {
    switch (info(expression.operation()).kind) {
      case OperationKind::leaf:
        return expression.is(Operation::reference) ? context_.type_of(expression.name()) : scalar_type();
      case OperationKind::pointwise:
        return pointwise(expression);
      case OperationKind::part:
        return part(expression);
      case OperationKind::update:
        return updated(expression);
      case OperationKind::reduction:
        return reduction(expression);
      case OperationKind::layer:
        return expression.is(Operation::matmul) ? product(expression) : convolution(expression);
      case OperationKind::collective:
        return collective(expression);
      case OperationKind::send:
        return sent(expression);
    }
    return {};
  }

 private:
  void check(bool holds, TypingRule rule, std::string_view got = "") const {
    context_.guards.check(holds, "coconet.typing", kRules[static_cast<size_t>(rule)], context_.place, got);
  }

  std::string text_of(const Expression& expression) const {
    return (context_.written ? context_.written(expression) : expression).to_string();
  }

  TensorType operand(const Expression& expression, size_t index) const {
    const TensorType type = of(expression.operands()[index]);
    const bool selects = expression.is(Operation::select) && index == 0;
    check((type.element == ElementType::boolean) == selects, booleans,
          text_of(expression.operands()[index]) + " " + type.to_string());
    return type;
  }

  TensorType pointwise(const Expression& expression) const {
    const Operation operation = expression.operation();
    TensorType result;
    std::optional<ElementType> element, scalar;
    for (size_t i = 0; i < expression.operands().size(); ++i) {
      const TensorType type = operand(expression, i);
      if (type.element == ElementType::boolean)  // its shape counts, not its type
        ;
      else if (type.is_scalar())
        scalar = wider(scalar.value_or(type.element), type.element);
      else
        check(!element || *element == type.element, element_types,
              std::string(axonn::to_string(element.value_or(type.element))) + " and " + type.to_string()),
            element = type.element;
      result = i == 0 ? type : joined(result, type);
    }
    result.element = element ? *element : scalar.value_or(ElementType::fp64);
    if (operation == Operation::cast) {
      check(expression.attributes().element != ElementType::boolean, booleans, "cast(..., boolean)");
      result.element = expression.attributes().element;
    }
    const double p = expression.attributes().probability;
    if (operation == Operation::dropout) check(p >= 0 && p < 1, probability, detail::concatenate(p));
    if (info(operation).precedence == 1) result.element = ElementType::boolean;
    return result;
  }

  // Shape, distribution and group of an element by element operation.
  TensorType joined(const TensorType& a, const TensorType& b) const {
    const std::string both = a.to_string() + " and " + b.to_string();
    check(a.group == b.group || a.group == TensorType::kEveryGroup || b.group == TensorType::kEveryGroup, groups, both);
    const auto shape = broadcast_shapes(a.shape, b.shape);
    check(shape.has_value(), shapes, both);
    const Shape result = shape.value_or(a.shape);
    const auto distribution = common(a, b, result.size());
    check(distribution.has_value(), distributions, both);
    return {.element = a.element,
            .shape = result,
            .distribution = distribution.value_or(a.distribution),
            .group = std::max(a.group, b.group)};
  }

  static bool has_dim(const TensorType& type, int dim) {
    return dim >= 0 && dim < std::ssize(type.shape) && !type.shape[static_cast<size_t>(dim)].is_one();
  }

  TensorType part(const Expression& expression) const {
    TensorType type = operand(expression, 0);
    const int dim = expression.attributes().dim, root = expression.attributes().root;
    const bool whole = type.distribution.is(Placement::replicated);
    if (expression.is(Operation::slice)) {
      check(whole && has_dim(type, dim), slice, type.to_string() + ", dim " + std::to_string(dim));
      type.distribution = Distribution::sliced(dim);
    } else {
      check(whole && root >= 0, load, type.to_string() + ", root " + std::to_string(root));
      type.distribution = Distribution::rooted(root);
    }
    return type;
  }

  TensorType updated(const Expression& expression) const {
    const Expression& target = expression.operands()[0];
    check(target.is(Operation::reference), update, text_of(target));
    const TensorType tensor = operand(expression, 0), value = operand(expression, 1);
    check(tensor == value, update, tensor.to_string() + " and " + value.to_string());
    return value;
  }

  TensorType reduction(const Expression& expression) const {
    TensorType type = operand(expression, 0);
    const std::string got = type.to_string();
    const std::vector<int>& dims = expression.attributes().dims;
    std::vector<int> sorted = dims;
    std::ranges::sort(sorted);
    const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
    const bool there = std::ranges::all_of(dims, [&](int dim) { return dim >= 0 && dim < std::ssize(type.shape); });
    check(distinct && there, reduced_dims, text_of(expression) + " of " + got);
    const auto reduces = [&](int dim) { return dims.empty() || std::ranges::count(dims, dim) > 0; };
    const bool sums = expression.is(Operation::norm) || expression.attributes().reduction == ReduceOp::sum;
    if (sums) type.element = ElementType::fp64;
    if (type.distribution.is(Placement::sliced) && reduces(type.distribution.dim)) {
      check(!expression.is(Operation::norm), norm, got);
      type.distribution = Distribution::local();
    }
    for (int dim = 0; dim < std::ssize(type.shape); ++dim)
      if (reduces(dim)) type.shape[static_cast<size_t>(dim)] = 1;
    if (dims.empty()) type.shape.clear();
    return type;
  }

  TensorType product(const Expression& expression) const {
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

  TensorType convolution(const Expression& expression) const {
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

  void same_element_and_group(const TensorType& a, const TensorType& b) const {
    const std::string both = a.to_string() + " and " + b.to_string();
    check(a.element == b.element, element_types, both);
    check(a.group == b.group, groups, both);
  }

  // x_summed and weight_summed: the dims that a layer sums; weight_out: the weight's other dim, and
  // result_out: where it is in the result.
  static std::optional<Distribution> layer_distribution(const Distribution& x, const Distribution& weight, int x_summed,
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

  TensorType collective(const Expression& expression) const {
    TensorType type = operand(expression, 0);
    const Distribution before = type.distribution;
    const int dim = expression.attributes().dim, root = expression.attributes().root;
    const std::string got = type.to_string();
    switch (expression.operation()) {
      case Operation::all_reduce:
        check(before.is(Placement::local), all_reduce, got);
        type.distribution = Distribution::replicated();
        break;
      case Operation::reduce_scatter:
        check(before.is(Placement::local) && has_dim(type, dim), reduce_scatter, got + ", dim " + std::to_string(dim));
        type.distribution = Distribution::sliced(dim);
        break;
      case Operation::reduce:
        check(before.is(Placement::local) && root >= 0, reduce, got + ", root " + std::to_string(root));
        type.distribution = Distribution::rooted(root);
        break;
      case Operation::all_gather:
        check(before.is(Placement::sliced), all_gather, got);
        type.distribution = Distribution::replicated();
        break;
      default:
        check(before.is(Placement::rooted), broadcast, got);
        type.distribution = Distribution::replicated();
    }
    return type;
  }

  TensorType sent(const Expression& expression) const {
    TensorType type = operand(expression, 0);
    const int64_t group = int64_t{type.group} + expression.attributes().group;
    check(type.group != TensorType::kEveryGroup && group != type.group && group >= 0 && group < context_.groups, send,
          type.to_string() + " to group " + std::to_string(group) + " of " + std::to_string(context_.groups));
    type.group = static_cast<int>(group);
    return type;
  }

  const TypingContext& context_;
};

}  // namespace

std::span<const Rule> typing_rules() { return kRules; }

TensorType scalar_type() {
  return {.element = ElementType::fp64,
          .shape = {},
          .distribution = Distribution::replicated(),
          .group = TensorType::kEveryGroup};
}

TensorType TypingContext::derive(const Expression& expression) const { return Derivation(*this).of(expression); }

}  // namespace axonn::coconet
