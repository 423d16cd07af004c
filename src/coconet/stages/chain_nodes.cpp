#include "coconet/stages/chain_nodes.hpp"

#include <algorithm>
#include <map>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

ElementType in_registers(ElementType type) { return type == ElementType::fp64 ? type : ElementType::fp32; }

Source memory_of(ElementType type) {
  return type == ElementType::fp64   ? Source::fp64
         : type == ElementType::fp32 ? Source::fp32
         : type == ElementType::bf16 ? Source::bf16
                                     : Source::fp16;
}

StageOp stage_op(PointwiseOp op) {
  using enum PointwiseOp;
  if (op <= power) return static_cast<StageOp>(static_cast<int>(StageOp::add) + static_cast<int>(op));
  if (op >= negate)
    return static_cast<StageOp>(static_cast<int>(StageOp::negate) + static_cast<int>(op) - static_cast<int>(negate));
  if (op == less || op == greater) return StageOp::less;
  if (op == less_equal || op == greater_equal) return StageOp::less_equal;
  return op == equal ? StageOp::equal : StageOp::not_equal;
}
static_assert(static_cast<int>(StageOp::power) == static_cast<int>(PointwiseOp::power) + 1);
static_assert(static_cast<int>(StageOp::select) - static_cast<int>(StageOp::negate) ==
              static_cast<int>(PointwiseOp::select) - static_cast<int>(PointwiseOp::negate));

// Operations whose result is a number of the operands' type, or a boolean.
bool is_exact(PointwiseOp op) {
  using enum PointwiseOp;
  return op == minimum || op == maximum || op == negate || op == absolute || op == relu || op == select ||
         (op >= less && op <= not_equal) || op == is_finite;
}

class Lowering {
 public:
  explicit Lowering(const PointwiseKernel& kernel) : kernel_(kernel) {
    items_.num_numbers = static_cast<int>(kernel.scalars().size() + kernel.range_values().size());
    for (const PointwiseInstruction& each : kernel.instructions()) node_of_.push_back(lower(each));
    for (const PointwiseKernel::Store& each : kernel.stores()) add_store(each);
    for (size_t i = 0; i < kernel.reductions().size(); ++i) add_reduction(kernel.reductions()[i], static_cast<int>(i));
  }

  ChainItems finish() {
    find_needed();
    for (size_t n = 0; n < nodes().size(); ++n) {
      const int node = static_cast<int>(n);
      if (!needed_[n] || nodes()[n].kind != ChainNode::Kind::computed) continue;
      (nodes()[n].is_number ? items_.once : items_.per_element).push_back({nodes()[n].op, node, nodes()[n].index, {}});
      if (nodes()[n].is_number && published_[n]) {
        nodes()[n].index = items_.num_numbers++;
        items_.once.push_back({StageOp::publish, node, nodes()[n].index, {}});
      }
      for (const ChainItem& each : reductions_)
        if (each.node == node) items_.per_element.push_back(each);
    }
    for (const ChainItem& each : stores_) place_store(each);
    AXONN_CHECK(items_.num_numbers <= PointwiseKernel::kMostNumbers, "coconet.stage_chain",
                "scalars, range values, constants and what is computed from them may be at most ",
                PointwiseKernel::kMostNumbers, " numbers, got ", items_.num_numbers);
    return std::move(items_);
  }

 private:
  std::vector<ChainNode>& nodes() { return items_.nodes; }
  ChainNode& at(int node) { return items_.nodes[static_cast<size_t>(node)]; }

  int add(ChainNode node) {
    nodes().push_back(node);
    return static_cast<int>(nodes().size()) - 1;
  }

  int add_computed(StageOp op, ElementType operand_type, ElementType type, std::array<int, 3> operands,
                   int index = -1) {
    bool is_number = operands[0] >= 0;
    for (const int each : operands)
      if (each >= 0) is_number = is_number && at(each).is_number;
    return add({.op = op,
                .operand_type = operand_type,
                .type = type,
                .operands = operands,
                .index = index,
                .is_number = is_number});
  }

  int rounded(int node, ElementType type) {
    if (type != ElementType::bf16 && type != ElementType::fp16) return node;
    return add_computed(type == ElementType::bf16 ? StageOp::round_bf16 : StageOp::round_fp16, ElementType::fp32,
                        ElementType::fp32, {node, -1, -1});
  }

  int number(int index, ElementType type) {
    const int node =
        add({.kind = ChainNode::Kind::number, .type = in_registers(type), .index = index, .is_number = true});
    return rounded(node, type);
  }

  // The number of a constant: constants come after the kernel's scalars and range values.
  int constant(double value, ElementType type) {
    items_.constants.push_back(value);
    return number(items_.num_numbers++, type);
  }

  int lower(const PointwiseInstruction& from) {
    using Kind = PointwiseInstruction::Kind;
    switch (from.kind) {
      case Kind::load:
        return add({.kind = ChainNode::Kind::load,
                    .type = in_registers(from.type),
                    .index = from.index,
                    .memory = memory_of(from.type)});
      case Kind::scalar:
        return number(from.index, from.type);
      case Kind::range_value:
        return number(static_cast<int>(kernel_.scalars().size()) + from.index, from.type);
      case Kind::constant:
        return constant(from.number, from.type);
      case Kind::dropout_mask:
        return add_computed(StageOp::mask, ElementType::fp32, ElementType::fp32, {-1, -1, -1}, from.index);
      case Kind::cast:
        return lower_cast(from);
      case Kind::operation:
        break;
    }
    return lower_operation(from);
  }

  int lower_operation(const PointwiseInstruction& from) {
    std::array<int, 3> operands{-1, -1, -1};
    for (size_t i = 0; i < 3; ++i)
      if (from.operands[i] >= 0) operands[i] = node_of_[static_cast<size_t>(from.operands[i])];
    if (from.op == PointwiseOp::greater || from.op == PointwiseOp::greater_equal) std::swap(operands[0], operands[1]);
    const ElementType operand_type = at(operands[from.op == PointwiseOp::select ? 1 : 0]).type;
    const int node = add_computed(stage_op(from.op), operand_type, in_registers(from.type), operands);
    return is_exact(from.op) ? node : rounded(node, from.type);
  }

  int lower_cast(const PointwiseInstruction& from) {
    const ElementType before = kernel_.instructions()[static_cast<size_t>(from.operands[0])].type;
    int node = node_of_[static_cast<size_t>(from.operands[0])];
    if (before == from.type) return node;
    const ElementType held = at(node).type;
    if (from.type == ElementType::boolean)
      return add_computed(StageOp::not_equal, held, ElementType::fp32, {node, constant(0, held), -1});
    if (in_registers(from.type) != held)
      node = add_computed(held == ElementType::fp32 ? StageOp::widen : StageOp::narrow, held, in_registers(from.type),
                          {node, -1, -1});
    return before == ElementType::boolean ? node : rounded(node, from.type);
  }

  // Loaded values and numbers become nodes that are computed per element.
  int computed(int node) {
    if (at(node).kind == ChainNode::Kind::computed && !at(node).is_number) return node;
    const int copy = add_computed(StageOp::copy, at(node).type, at(node).type, {node, -1, -1});
    at(copy).is_number = false;
    return copy;
  }

  void add_store(const PointwiseKernel::Store& store) {
    const Source out = memory_of(kernel_.streams()[static_cast<size_t>(store.stream.index)].type);
    int node = computed(node_of_[static_cast<size_t>(store.value.index)]);
    // The store rounds.
    if ((out == Source::bf16 && at(node).op == StageOp::round_bf16) ||
        (out == Source::fp16 && at(node).op == StageOp::round_fp16))
      node = computed(at(node).operands[0]);
    stores_.push_back({StageOp::store, node, store.stream.index, out});
  }

  void add_reduction(const PointwiseKernel::Reduction& reduction, int index) {
    int node = node_of_[static_cast<size_t>(reduction.value.index)];
    StageOp op = reduction.kind == ReduceOp::sum   ? StageOp::reduce_sum
                 : reduction.kind == ReduceOp::max ? StageOp::reduce_maximum
                                                   : StageOp::reduce_minimum;
    // The square of an fp32 number is exact in fp64.
    const ChainNode& value = at(node);
    if (op == StageOp::reduce_sum && value.op == StageOp::multiply && value.type == ElementType::fp64 &&
        value.operands[0] == value.operands[1] && at(value.operands[0]).op == StageOp::widen) {
      op = StageOp::reduce_squares;
      node = at(value.operands[0]).operands[0];
    }
    reductions_.push_back({op, computed(node), index, {}});
  }

  void find_needed() {
    needed_.resize(nodes().size());
    published_.resize(nodes().size());
    for (const std::vector<ChainItem>* list : {&stores_, &reductions_})
      for (const ChainItem& each : *list) needed_[static_cast<size_t>(each.node)] = true;
    for (size_t n = nodes().size(); n-- > 0;)
      for (const int each : nodes()[n].operands)
        if (each >= 0 && needed_[n]) {
          needed_[static_cast<size_t>(each)] = true;
          if (!nodes()[n].is_number) published_[static_cast<size_t>(each)] = at(each).is_number;
        }
  }

  // Behind the value's own item and the last one that loads the stream, or one that may share its
  // memory.
  void place_store(const ChainItem& store) {
    size_t place = 0;
    for (size_t i = 0; i < items_.per_element.size(); ++i) {
      const ChainItem& item = items_.per_element[i];
      bool after = item.node == store.node;
      for (const int each : at(item.node).operands)
        after = after || (item.computes() && each >= 0 && at(each).kind == ChainNode::Kind::load &&
                          (at(each).index == store.index || kernel_.shares(at(each).index, store.index)));
      if (after) place = i + 1;
    }
    items_.per_element.insert(items_.per_element.begin() + static_cast<std::ptrdiff_t>(place), store);
  }

  const PointwiseKernel& kernel_;
  ChainItems items_;
  std::vector<int> node_of_;  // by instruction
  std::vector<ChainItem> stores_, reductions_;
  std::vector<char> needed_, published_;
};

}  // namespace

ChainItems lower(const PointwiseKernel& kernel) { return Lowering(kernel).finish(); }

bool needs_wide(const std::vector<ChainNode>& nodes, const std::vector<ChainItem>& items) {
  return std::ranges::any_of(items, [&](const ChainItem& item) {
    const ChainNode& node = nodes[static_cast<size_t>(item.node)];
    return node.type == ElementType::fp64 || (item.computes() && node.operand_type == ElementType::fp64);
  });
}

}  // namespace axonn::coconet
