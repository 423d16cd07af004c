#include "coconet/proofs/random_program.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "axonn/core/error.hpp"
#include "coconet/language/typing.hpp"

namespace axonn::coconet::proofs {
namespace {

constexpr int kTries = 30;

// One kind of network: the shapes of its tensors go together.
struct Flavour {
  std::vector<Shape> shapes;
  std::vector<Shape> weights;  // layers' weights; none: it has no layers
};

const std::vector<Flavour>& flavours() {
  static const std::vector<Flavour> all = {
      {{{"N"}}, {}},                                                          // an optimizer
      {{{"T", "K"}, {"T", "K"}, {"T", 1}}, {}},                               // with tensors of its own
      {{{"B", "S", "H"}, {"B", "S", "H"}, {"S", "H"}, {"H"}}, {{"H", "H"}}},  // attention
      {{{"B", "C", "P", "Q"}, {"B", "C", "P", "Q"}, {"C", 1, 1}}, {{"C", "C", 3, 1}, {"C", "C", 1, 1}}}};  // images
  return all;
}

class Generator {
 public:
  Generator(Dice& dice, const Guards& guards, Aim aim)
      : dice_(dice), guards_(guards), aim_(aim), flavour_(flavour(dice, aim)), element_(dice.pick(kElements)) {
    parts_.name = "random";
    parts_.groups = dice.chance(65) ? 1 : dice.chance(60) ? 2 : 3;
    ranks_ = ranks(dice, aim, parts_.groups);
  }

  RandomProgram run() {
    declare();
    // Most programs are those of the paper: a sum, and computations on it.
    const bool border = parts_.groups > 1 && aim_ == Aim::execution && dice_.chance(60);
    if (border || dice_.chance(85)) add(all_reduce(ReduceOp::sum, summand()));
    if (border) add_border();
    if (dice_.chance(25)) add_optimizer();
    if (dice_.chance(15)) add_late_store();
    const int statements = dice_.chance(90) ? dice_.between(3, 9) : dice_.between(10, 16);
    for (int i = 0; i < statements; ++i) add_statement();
    for (const Statement& statement : parts_.statements)
      if (!read_.contains(statement.name) && !statement.expression.is(Operation::update))
        parts_.outputs.push_back(statement.name);
    return {Program(parts_, guards_), sizes(), ranks_};
  }

 private:
  // One rank is rare: there a collective proves nothing. Ranks of executions are threads.
  static int ranks(Dice& dice, Aim aim, int groups) {
    const int percent = dice.below(100);
    const int ranks = percent < 4 ? 1 : percent < 30 ? 2 : percent < 52 ? 3 : percent < 72 ? 4 : dice.between(5, 8);
    return aim == Aim::anything ? ranks : std::min(ranks, groups == 1 ? 6 : groups == 2 ? 4 : 3);
  }

  // Mostly small numbers. Else more than a range of 64 rows, or tensors of more than a block of
  // 1024 elements, so that layers stay small.
  SizeValues sizes() {
    SizeValues sizes;
    for (const std::string& size : parts_.sizes) sizes[size] = dice_.between(1, 6);
    const int percent = dice_.below(100);
    if (percent < 80) return sizes;
    if (percent < 90) {
      for (auto& [symbol, size] : sizes) size = dice_.between(1, 3);
      for (const char* rows : {"N", "T", "S", "P"})
        if (sizes.contains(rows)) sizes[rows] = dice_.between(65, 150);
      return sizes;
    }
    for (const auto& [symbol, least] : {std::pair("N", 1025), {"K", 1025}, {"S", 130}, {"H", 8}, {"P", 33}, {"Q", 33}})
      if (sizes.contains(symbol)) sizes[symbol] = least + dice_.below(least / 2);
    for (const char* few : {"T", "B", "C"})
      if (sizes.contains(few)) sizes[few] = dice_.between(1, 2);
    return sizes;
  }

  static constexpr ElementType kElements[] = {ElementType::fp64, ElementType::fp32, ElementType::bf16,
                                              ElementType::fp16};
  static constexpr Operation kUnary[] = {
      Operation::negate, Operation::square_root, Operation::exponential, Operation::logarithm, Operation::absolute,
      Operation::sign,   Operation::tanh,        Operation::relu,        Operation::gelu,      Operation::sigmoid,
      Operation::cast,   Operation::dropout,     Operation::slice,       Operation::load};
  static constexpr Operation kBinary[] = {Operation::add,   Operation::subtract, Operation::multiply, Operation::divide,
                                          Operation::power, Operation::maximum,  Operation::minimum};
  static constexpr Operation kComparisons[] = {Operation::less,          Operation::less_equal, Operation::greater,
                                               Operation::greater_equal, Operation::equal,      Operation::not_equal};
  static constexpr Operation kCollectives[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce,
                                               Operation::all_gather, Operation::broadcast,      Operation::send,
                                               Operation::all_reduce, Operation::all_gather,     Operation::broadcast};

  void declare_tensor(const std::string& name, const Shape& shape, Distribution distribution) {
    for (const Size& size : shape)
      for (const std::string& symbol : size.symbols())
        if (std::ranges::count(parts_.sizes, symbol) == 0) parts_.sizes.push_back(symbol);
    TensorType type{.element = element_, .shape = shape, .distribution = distribution};
    if (name.starts_with('t') && dice_.chance(30)) type.element = dice_.pick(kElements);
    if (parts_.groups > 1 && dice_.chance(20)) type.group = dice_.between(1, parts_.groups - 1);
    parts_.declarations.push_back({name, type});
    values_.push_back(name);
  }

  static const Flavour& flavour(Dice& dice, Aim aim) {
    while (true) {
      const Flavour& chosen = aim == Aim::execution && dice.chance(30) ? flavours()[2] : dice.pick(flavours());
      const bool convolves = !chosen.weights.empty() && chosen.weights[0].size() == 4;
      if (aim == Aim::anything || !convolves) return chosen;
    }
  }

  Distribution distribution_for(const Shape& shape) {
    const int kind = dice_.below(8);
    const int dim = dice_.below(static_cast<int>(shape.size()));
    if (kind < 3) return Distribution::local();
    if (kind < 6) return Distribution::replicated();
    if (kind == 6) return Distribution::rooted(root());
    if (aim_ == Aim::execution && shape != flavour_.shapes[0]) return Distribution::replicated();
    return shape[static_cast<size_t>(dim)].is_one() ? Distribution::local() : Distribution::sliced(dim);
  }

  void declare() {
    declare_tensor("g", flavour_.shapes[0], Distribution::local());
    declare_tensor("w", flavour_.shapes[0], Distribution::replicated());
    declare_tensor("m", flavour_.shapes[0], Distribution::replicated());
    const int more = dice_.between(1, 3);
    for (int i = 0; i < more; ++i) {
      const Shape& shape = dice_.pick(flavour_.shapes);
      declare_tensor("t" + std::to_string(i), shape, distribution_for(shape));
    }
    for (size_t i = 0; i < flavour_.weights.size(); ++i) {
      const Shape& shape = flavour_.weights[i];
      const Distribution distribution =
          aim_ == Aim::anything && dice_.chance(60) ? Distribution::sliced(dice_.below(2)) : distribution_for(shape);
      declare_tensor("weight" + std::to_string(i), shape, distribution);
      weights_.push_back(values_.back());
    }
    parts_.declarations.push_back({"rate", scalar_type(), 0.5});
    values_.push_back("rate");
  }

  TensorType type_of(const std::string& name) const {
    const auto declared = std::ranges::find(parts_.declarations, name, &Declaration::name);
    return declared != parts_.declarations.end() ? declared->type : types_.at(name);
  }

  // Its type, or nothing if a rule refuses it.
  std::optional<TensorType> derive(const Expression& expression) const {
    const TypingContext context{.type_of = [this](const std::string& name) { return type_of(name); },
                                .groups = parts_.groups,
                                .place = "random",
                                .guards = guards_};
    try {
      return context.derive(expression);
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  Expression any_value() {
    // Values that were computed last are read most, so that programs are long chains.
    const auto count = static_cast<int>(values_.size());
    const int index = dice_.chance(50) ? count - 1 - dice_.below(std::min(count, 3)) : dice_.below(count);
    return Expression::reference(values_[static_cast<size_t>(index)]);
  }

  int root() { return dice_.chance(50) ? 0 : dice_.below(ranks_); }

  Attributes attributes() {
    return {.reduction = dice_.chance(60)   ? ReduceOp::sum
                         : dice_.chance(50) ? ReduceOp::max
                                            : ReduceOp::min,
            .dim = dice_.below(3),
            .dims = dice_.chance(50) ? std::vector<int>{} : std::vector<int>{dice_.below(3)},
            .root = root(),
            .element = dice_.pick(kElements),
            .probability = 0.25,
            .stream = dice_.below(3),
            .group = dice_.chance(80) ? 1 : -1};
  }

  // Only the settings that the operation has.
  Expression made(Operation operation, std::vector<Expression> operands) {
    const Attributes all = attributes();
    Attributes own;
    for (const Attribute attribute : info(operation).attributes) switch (attribute) {
        case Attribute::reduction:
          own.reduction = all.reduction;
          break;
        case Attribute::dim:
          own.dim = all.dim;
          break;
        case Attribute::dims:
          own.dims = all.dims;
          break;
        case Attribute::root:
          own.root = all.root;
          break;
        case Attribute::element:
          own.element = all.element;
          break;
        case Attribute::probability:
          own.probability = all.probability;
          break;
        case Attribute::stream:
          own.stream = all.stream;
          break;
        case Attribute::group:
          own.group = all.group;
          break;
      }
    return Expression::of(operation, std::move(operands), own);
  }

  Expression leaf() {
    if (dice_.chance(15)) return Expression(dice_.between(1, 8) / 4.0);
    if (dice_.chance(5)) return Expression::ranks();
    return any_value();
  }

  // An expression that keeps the rules; a leaf if none is found.
  Expression computation(int depth) {
    for (int i = 0; i < kTries; ++i) {
      const auto operand = [&] { return depth > 1 && dice_.chance(50) ? computation(depth - 1) : leaf(); };
      const int kind = dice_.below(10);
      Expression tried =
          kind < 4   ? made(dice_.pick(kBinary), {operand(), operand()})
          : kind < 8 ? made(dice_.pick(kUnary), {operand()})
          : kind < 9
              ? made(Operation::fma, {operand(), operand(), operand()})
              : made(Operation::select, {made(dice_.pick(kComparisons), {operand(), operand()}), operand(), operand()});
      if (derive(tried)) return tried;
    }
    return any_value();
  }

  Expression tried_statement() {
    const int kind = dice_.below(10);
    if (kind < 4) return computation(3);
    if (kind < 7) {
      const bool sends = parts_.groups > 1 && dice_.chance(40);
      const Operation collective = sends ? Operation::send : dice_.pick(kCollectives);
      return made(collective, {any_value()});
    }
    if (kind < 8) return made(dice_.chance(70) ? Operation::reduce_tensor : Operation::norm, {computation(1)});
    if (kind < 9 && !weights_.empty()) {
      const Operation layer = flavour_.weights[0].size() == 2 ? Operation::matmul : Operation::conv2d;
      return made(layer, {any_value(), Expression::reference(dice_.pick(weights_))});
    }
    return random_update();
  }

  Expression random_update() {
    std::vector<std::string> tensors;
    for (const Declaration& declaration : parts_.declarations)
      if (!declaration.type.is_scalar() && std::ranges::count(values_, declaration.name) > 0)
        tensors.push_back(declaration.name);
    if (tensors.empty()) return any_value();
    const Expression target = Expression::reference(dice_.pick(tensors));
    for (int i = 0; i < kTries; ++i) {
      Expression tried = made(Operation::update, {target, computation(2)});
      if (derive(tried)) return tried;
    }
    return any_value();
  }

  // A product of operands that are cut along the dim that it sums: tensors in slices, or slices of
  // whole ones.
  Expression sliced_product() {
    std::vector<Expression> operands;
    for (const auto& [name, shape, dim] : {std::tuple("x", flavour_.shapes[0], 2), {"wx", flavour_.weights[0], 0}}) {
      const bool cut = dice_.chance(50);
      declare_tensor(name, shape, cut ? Distribution::sliced(dim) : Distribution::replicated());
      parts_.declarations.back().type.element = element_;
      parts_.declarations.back().type.group = 0;
      if (!cut) add(slice(Expression::reference(name), dim));
      operands.push_back(Expression::reference(cut ? name : values_.back()));
      values_.pop_back();  // nobody else reads it
    }
    add(matmul(operands[0], operands[1]));
    return Expression::reference(values_.back());
  }

  // A value that differs between ranks. Executors compute it beside its sum, if it is a statement.
  Expression summand() {
    const Expression g = Expression::reference("g");
    if (aim_ == Aim::execution && !weights_.empty() && dice_.chance(30)) return sliced_product();
    if (aim_ != Aim::execution || dice_.chance(40)) return g;
    for (int i = 0; i < kTries; ++i) {
      const Expression tried = !weights_.empty() && dice_.chance(60)
                                   ? made(Operation::matmul, {g, Expression::reference(dice_.pick(weights_))})
                                   : made(dice_.pick(kBinary), {g, any_value()});
      const auto type = derive(tried);
      if (!type || !type->distribution.is(Placement::local) || type->is_scalar()) continue;
      add(tried);
      return Expression::reference(values_.back());
    }
    return g;
  }

  // As the border of two stages: what is made of a sum is sent.
  void add_border() {
    const std::string sum = values_.back();
    for (int i = 0; i < kTries; ++i) {
      const Expression tried = made(dice_.pick(kBinary), {Expression::reference(sum), computation(1)});
      const auto type = derive(tried);
      if (!type || type->distribution != Distribution::replicated() || type->is_scalar()) continue;
      const size_t before = parts_.statements.size();
      add(tried);
      const Expression sent = made(Operation::send, {Expression::reference(values_.back())});
      if (derive(sent)) add(sent);
      if (parts_.statements.size() > before + 1) return;
    }
  }

  // State that is updated from a sum, then the weights from it.
  void add_optimizer() {
    if (types_.empty()) return;
    for (const std::string& tensor : {std::string("m"), std::string("w")}) {
      const Expression target = Expression::reference(tensor), last = Expression::reference(values_.back());
      const Expression value = target * leaf() + made(dice_.pick(kBinary), {last, leaf()});
      if (derive(update(target, value))) add(update(target, value));
    }
  }

  // A value that is stored after another statement has read the tensor.
  void add_late_store() {
    const Expression target = Expression::reference(dice_.pick(std::vector<std::string>{"w", "m"}));
    if (std::ranges::count(values_, target.name()) == 0) return;
    for (int i = 0; i < kTries; ++i) {
      const Expression value = made(dice_.pick(kBinary), {target, computation(1)});
      if (!derive(update(target, value))) continue;
      add(value);
      const std::string stored = values_.back();
      const Expression reads = made(dice_.pick(kBinary), {target, leaf()});
      if (derive(reads)) add(reads);
      return add(update(target, Expression::reference(stored)));
    }
  }

  void add_statement() {
    for (int i = 0; i < kTries; ++i) {
      const Expression expression = tried_statement();
      const auto type = derive(expression);
      if (!type || type->element == ElementType::boolean || expression.is(OperationKind::leaf)) continue;
      return add(expression);
    }
  }

  void add(const Expression& expression) {
    const std::string name = "v" + std::to_string(parts_.statements.size());
    const auto type = derive(expression);
    expression.for_each_reference([&](const std::string& read) { read_.insert(read); });
    parts_.statements.push_back({name, expression});
    types_.emplace(name, *type);
    // A tensor that is used after its update breaks a rule: it may stay if one is left out.
    const bool stays = !guards_.without.empty() && dice_.chance(30);
    if (expression.is(Operation::update) && !stays) std::erase(values_, expression.operands()[0].name());
    std::erase_if(weights_, [&](const std::string& weight) { return std::ranges::count(values_, weight) == 0; });
    values_.push_back(name);
  }

  Dice& dice_;
  const Guards& guards_;
  Aim aim_;
  const Flavour& flavour_;
  ElementType element_;
  int ranks_ = 1;
  ProgramParts parts_;
  std::vector<std::string> values_;   // that may be read
  std::vector<std::string> weights_;  // layers' weights
  std::map<std::string, TensorType> types_;
  std::set<std::string> read_;
};

}  // namespace

RandomProgram random_program(Dice& dice, const Guards& guards, Aim aim) {
  while (true) {
    try {
      return Generator(dice, guards, aim).run();
    } catch (const UserError&) {
      // Nothing was returned or updated, or a hoisted operand broke a rule: the next one.
    }
  }
}

}  // namespace axonn::coconet::proofs
