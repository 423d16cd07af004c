#include "coconet/proofs/random_schedule.hpp"

#include <algorithm>
#include <stdexcept>

#include "axonn/core/error.hpp"

namespace axonn::coconet::proofs {
namespace {

using Kind = TransformationKind;

constexpr int kSteps = 60;  // at most, where none is legal

class Scheduler {
 public:
  Scheduler(const RandomProgram& random, Dice& dice, const Guards& guards, Aim aim)
      : made_{random.program, {}}, ranks_(random.ranks), dice_(dice), guards_(guards), aim_(aim) {}

  RandomSchedule run() {
    if (aim_ == Aim::execution && dice_.chance(70) && overlap_a_border()) return std::move(made_);
    if (aim_ == Aim::execution && dice_.chance(70)) fuse_around_the_sum();
    const int steps = dice_.between(aim_ == Aim::execution ? 0 : 2, aim_ == Aim::execution ? 4 : 12);
    for (int i = 0; i < steps; ++i) step();
    for (int i = dice_.below(3); i > 0; --i) fuse_around_a_collective();
    if (aim_ == Aim::anything && dice_.chance(30)) overlap_a_chain();
    if (aim_ == Aim::execution && dice_.chance(80)) overlap_a_sum();
    for (int i = 0; made_.log.empty() && i < kSteps; ++i) step();
    return std::move(made_);
  }

 private:
  bool apply(const Transformation& transformation) {
    try {
      made_.program = coconet::apply(made_.program, transformation, guards_);
      made_.log.push_back(transformation);
      return true;
    } catch (const UserError&) {
      return false;
    } catch (const std::out_of_range&) {
      if (guards_.without.empty()) throw;
      return false;  // the rule that was left out would have refused it
    }
  }

  std::string any_statement() { return dice_.pick(made_.program.statements()).name; }

  // A statement of one of the operations, or any.
  std::string statement_of(std::initializer_list<Operation> operations) {
    std::vector<std::string> found;
    for (const Statement& statement : made_.program.statements())
      if (std::ranges::count(operations, statement.expression.operation()) > 0) found.push_back(statement.name);
    return found.empty() || dice_.chance(10) ? any_statement() : dice_.pick(found);
  }

  // The statements that read a value, and some that read those.
  std::vector<std::string> readers(const std::string& value) {
    std::vector<std::string> chosen;
    const int most = dice_.chance(60) ? 100 : 85;
    for (const Statement& statement : made_.program.statements()) {
      bool reads = statement.expression.refers_to(value);
      for (const std::string& other : chosen) reads |= statement.expression.refers_to(other);
      if (reads && dice_.chance(most)) chosen.push_back(statement.name);
    }
    return chosen;
  }

  void step() {
    switch (dice_.below(8)) {
      case 0:
      case 1:
        return split();
      case 2:
      case 3:
        return reorder(statement_of({Operation::all_gather, Operation::broadcast}));
      case 4:
        apply({Kind::join, {statement_of({Operation::all_gather, Operation::broadcast})}});
        return;
      case 5:
        return reorder_back();
      case 6:
        return slice_tensors();
      default:
        return fuse_some();
    }
  }

  void split() {
    const int policy = dice_.below(4);
    Transformation made{.kind = Kind::split, .names = {}, .policy = SplitPolicy::reduce_scatter, .dim = dice_.below(3)};
    if (policy == 0) {
      made.policy = SplitPolicy::slice;
      made.names = {any_statement()};
    } else {
      made.names = {statement_of({Operation::all_reduce})};
      if (policy == 1) made.policy = SplitPolicy::reduce, made.dim = 0, made.root = dice_.below(ranks_);
    }
    if (!apply(made) || !dice_.chance(70)) return;
    reorder(made.names[0]);
    slice_tensors();
  }

  void reorder(const std::string& gather) {
    std::vector<std::string> names = {gather};
    for (std::string& reader : readers(gather)) names.push_back(std::move(reader));
    while (names.size() > 1 && !apply({Kind::reorder, names})) names.pop_back();
  }

  // One gathered value, or an update that stores one, and others that are made of its part.
  void reorder_back() {
    const std::string first = statement_of({Operation::all_gather, Operation::broadcast});
    const Expression& gather = made_.program.statement(first).expression;
    if (!gather.is(OperationKind::collective)) return;
    const Statement* part = made_.program.find_statement(gather.operands()[0].name());
    if (part == nullptr) return;
    std::vector<std::string> sources;
    part->expression.for_each_reference([&](const std::string& read) { sources.push_back(read); });
    if (sources.empty()) return;
    const std::string source = dice_.chance(15) ? any_statement() : dice_.pick(sources);
    std::vector<std::string> names = {"back" + std::to_string(made_.log.size()), source};
    for (const Statement& statement : made_.program.statements()) {
      const bool gathers = statement.expression.operation() == gather.operation();
      const bool stores = statement.expression.is(Operation::update) && statement.expression.refers_to(first);
      const bool first_is_stored = !made_.program.consumers_of(first).empty();
      if ((statement.name == first && !(first_is_stored && dice_.chance(50))) || stores ||
          (gathers && statement.name != first && dice_.chance(30)))
        names.push_back(statement.name);
    }
    if (dice_.chance(15)) names.back() = any_statement();  // mostly not one that fits
    while (names.size() > 2 && !apply({Kind::reorder_back, names})) names.pop_back();
  }

  void slice_tensors() {
    const std::vector<Declaration> declarations = made_.program.declarations();
    for (const Declaration& declaration : declarations)
      if (dice_.chance(60)) apply({Kind::as_slice, {declaration.name}});
    const std::vector<Statement> statements = made_.program.statements();
    for (const Statement& statement : statements)
      if (made_.program.consumers_of(statement.name).empty()) apply({Kind::dead, {statement.name}});
  }

  std::string new_section() { return "section" + std::to_string(made_.log.size()); }

  void fuse_some() {
    std::vector<std::string> names = {new_section()};
    const std::vector<Statement>& statements = made_.program.statements();
    const auto first = static_cast<size_t>(dice_.below(static_cast<int>(statements.size())));
    const size_t last = std::min(statements.size(), first + 1 + static_cast<size_t>(dice_.between(1, 3)));
    for (size_t i = first; i < last; ++i) names.push_back(statements[i].name);
    apply({Kind::fuse, names});
  }

  // A collective with what it reads, or with what reads it.
  void fuse_around_a_collective() {
    const std::string collective = statement_of({Operation::all_reduce, Operation::reduce_scatter, Operation::reduce,
                                                 Operation::all_gather, Operation::broadcast, Operation::send});
    std::vector<std::string> names = {new_section(), collective};
    const Expression& root = made_.program.statement(collective).expression;
    root.for_each_reference([&](const std::string& read) {
      if (made_.program.find_statement(read) != nullptr && dice_.chance(60)) names.push_back(read);
    });
    for (std::string& reader : readers(collective)) names.push_back(std::move(reader));
    while (names.size() > 2 && !apply({Kind::fuse, names})) names.pop_back();
  }

  // As CoCoNet's optimizers: reduce-scatter, what is computed of the sum, and an all-gather as one.
  void fuse_around_the_sum() {
    const std::string sum = statement_of({Operation::all_reduce});
    if (!apply({.kind = Kind::split, .names = {sum}, .policy = SplitPolicy::reduce_scatter, .dim = 0})) return;
    reorder(sum);
    slice_tensors();
    std::vector<std::string> names = {new_section(), sum + ".part"};
    for (std::string& reader : readers(names[1])) names.push_back(std::move(reader));
    while (names.size() > 2 && !apply({Kind::fuse, names})) names.pop_back();
  }

  // The producer of a summand, beside the collective that sums it.
  void overlap_a_sum() {
    const std::string sum = statement_of({Operation::all_reduce, Operation::reduce_scatter});
    const Expression& root = made_.program.statement(sum).expression;
    if (!root.is(OperationKind::collective)) return;
    const auto member = [&](const std::string& statement) {
      const Section* section = made_.program.section_of(statement);
      return section == nullptr ? statement : section->name;
    };
    apply({Kind::overlap, {new_section(), member(root.operands()[0].name()), member(sum)}});
  }

  // The two overlaps of a send: of slices of a whole value, and of a sum with what is made of it.
  // Whether there is one.
  bool overlap_a_border() {
    const auto sends = [](const Statement& one) { return one.expression.is(Operation::send); };
    const auto sent = std::ranges::find_if(made_.program.statements(), sends);
    if (sent == made_.program.statements().end()) return false;
    const std::string out = sent->name, value = sent->expression.operands()[0].name();
    const Statement* computed = made_.program.find_statement(value);
    if (computed == nullptr) return false;
    std::string sum;
    computed->expression.for_each_reference([&](const std::string& read) {
      const Statement* source = made_.program.find_statement(read);
      if (source != nullptr && source->expression.is(Operation::all_reduce)) sum = read;
    });
    const Program before = made_.program;
    const bool of_sum = !sum.empty() && dice_.chance(70);
    const int dim = dice_.chance(70) ? 0 : dice_.below(2);
    const std::string section = new_section(), first = of_sum ? sum : value;
    bool whole = apply({.kind = Kind::split,
                        .names = {first},
                        .policy = of_sum ? SplitPolicy::reduce_scatter : SplitPolicy::slice,
                        .dim = dim}) &&
                 apply({Kind::reorder, of_sum ? std::vector{sum, value, out} : std::vector{value, out}});
    if (of_sum && whole) whole = apply({Kind::fuse, {section + ".sent", value + ".part", out + ".part"}});
    whole = whole && apply({Kind::overlap, of_sum ? std::vector{section, sum + ".part", section + ".sent", out}
                                                  : std::vector{section, out + ".part", out}});
    if (whole) return true;
    made_ = {before, {}};
    return false;
  }

  void overlap_a_chain() {
    std::vector<std::string> names = {new_section()};
    std::string member = dice_.pick(made_.program.statements()).name;
    for (int i = dice_.between(2, 3); i > 0; --i) {
      const Section* section = made_.program.section_of(member);
      names.push_back(section == nullptr ? member : section->name);
      const std::vector<std::string> statements = made_.program.statements_of(names.back());
      const std::vector<std::string> next = made_.program.consumers_of(statements.back());
      if (next.empty()) break;
      member = dice_.pick(next);
    }
    if (dice_.chance(10)) std::swap(names[1], names.back());  // no chain any more
    while (names.size() > 2 && !apply({Kind::overlap, names})) names.pop_back();
  }

  RandomSchedule made_;
  int ranks_;
  Dice& dice_;
  const Guards& guards_;
  Aim aim_;
};

}  // namespace

RandomSchedule random_schedule(const RandomProgram& random, Dice& dice, const Guards& guards, Aim aim) {
  return Scheduler(random, dice, guards, aim).run();
}

}  // namespace axonn::coconet::proofs
