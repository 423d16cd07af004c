#include "axonn/coconet/transform/transformation.hpp"

#include <algorithm>
#include <iterator>

#include "axonn/core/error.hpp"
#include "coconet/transform/transformation_rules.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.transform";

constexpr Rule kRules[] = {
    {"split-all-reduce", "split by reduce_scatter or reduce takes an all_reduce", "CoCoNet, section 3.1"},
    {"split-replicated", "split by slice takes a replicated value that is computed and not stored",
     "every rank can take its part"},
    {"join", "join takes an all_gather or broadcast, the only reader of a reduce_scatter, reduce or slice",
     "CoCoNet, table of rewrite rules: AllReduce Fuse"},
    {"sections", "a transformation takes all statements of a section, or none", "a section runs as one"},
    {"reorder-gather", "reorder moves an all_gather or a broadcast", "CoCoNet, section 3.2"},
    {"reorder-kinds", "computations, layers, sends and updates are reordered, collectives are not",
     "CoCoNet, section 3.2"},
    {"reorder-reads", "each statement that is reordered reads tensors that can be sliced, as they are",
     "CoCoNet, section 3.2: their inputs are sliced"},
    {"reorder-back", "reorder_back takes gathered values whose parts are computed from the given part only",
     "the inverse of reorder"},
    {"as-slice-reads", "as_slice takes a replicated tensor that is read in slices of one dim only",
     "CoCoNet, section 4: asSlice(m)"},
    {"as-slice-update",
     "as_slice takes a tensor whose update stores an all_gather of slices of that dim, and is not read whole",
     "CoCoNet, section 4: asSlice(m); dead(agM)"},
    {"dead", "dead takes a value that nobody reads, returns or stores", "CoCoNet, section 4: dead(agM)"},
};

void split(Rewrite& rewrite) {
  const std::string& name = rewrite.what.names.at(0);
  const Statement statement = rewrite.free_statement(name);
  const bool by_slice = rewrite.what.policy == SplitPolicy::slice;
  const bool by_reduce = rewrite.what.policy == SplitPolicy::reduce;
  const std::string part = name + (by_reduce ? ".root" : ".part");
  Expression value = statement.expression;
  std::vector<Statement> made;
  if (by_slice) {
    const TensorType& type = rewrite.before.type(name);
    rewrite.check(type.distribution.is(Placement::replicated) && !value.is(Operation::update),
                  TransformationRule::split_replicated, name + " " + type.to_string());
    made.push_back({name + ".full", value, statement.line});
    value = slice(Expression::reference(name + ".full"), rewrite.what.dim);
  } else {
    rewrite.check(value.is(Operation::all_reduce), TransformationRule::split_all_reduce, rewrite.before.written(value));
    const Expression& local = value.operands().at(0);
    const ReduceOp reduction = value.attributes().reduction;
    value =
        by_reduce ? reduce(reduction, local, rewrite.what.root) : reduce_scatter(reduction, local, rewrite.what.dim);
  }
  made.push_back({part, value, statement.line});
  const Expression reference = Expression::reference(part);
  rewrite.place_of(name)->expression = by_reduce ? broadcast(reference) : all_gather(reference);
  rewrite.parts.statements.insert(rewrite.place_of(name), made.begin(), made.end());
}

void join(Rewrite& rewrite) {
  const std::string& name = rewrite.what.names.at(0);
  const Statement gather = rewrite.free_statement(name);
  const bool gathers = gather.expression.is(Operation::all_gather) || gather.expression.is(Operation::broadcast);
  rewrite.check(gathers, TransformationRule::join, rewrite.before.written(gather.expression));
  const std::string& part_name = gather.expression.operands().at(0).name();
  rewrite.check(rewrite.before.find_statement(part_name) != nullptr, TransformationRule::join, part_name);
  const Expression part = rewrite.free_statement(part_name).expression;
  const bool pairs = gather.expression.is(Operation::broadcast)
                         ? part.is(Operation::reduce)
                         : part.is(Operation::reduce_scatter) || part.is(Operation::slice);
  const bool only_reader = rewrite.before.consumers_of(part_name).size() == 1 && !rewrite.before.is_output(part_name);
  rewrite.check(pairs && only_reader, TransformationRule::join, rewrite.before.written(part));
  const Expression& whole = part.operands().at(0);
  rewrite.place_of(name)->expression =
      part.is(Operation::slice) ? whole : all_reduce(part.attributes().reduction, whole);
  rewrite.parts.statements.erase(rewrite.place_of(part_name));
  // split() by slice named the whole value x.full: with join, x is that value again.
  if (!whole.is(Operation::reference) || !part.is(Operation::slice)) return;
  const Statement* full = rewrite.before.find_statement(whole.name());
  if (whole.name() != name + ".full" || full == nullptr || rewrite.before.consumers_of(whole.name()).size() != 1)
    return;
  rewrite.place_of(name)->expression = full->expression;
  rewrite.parts.statements.erase(rewrite.place_of(whole.name()));
}

// Names of fused sections among the members stand for their statements: they become part of the
// new section.
void fuse(Rewrite& rewrite) {
  Section section{SectionKind::fuse, rewrite.what.names.at(0), {}};
  for (auto member = rewrite.what.names.begin() + 1; member != rewrite.what.names.end(); ++member) {
    const std::vector<std::string> statements = rewrite.before.statements_of(*member);
    if (statements.empty()) (void)rewrite.before.type(*member);  // its error
    section.members.insert(section.members.end(), statements.begin(), statements.end());
    std::erase_if(rewrite.parts.sections,
                  [&](const Section& other) { return other.name == *member && other.kind == SectionKind::fuse; });
  }
  rewrite.parts.sections.push_back(std::move(section));
}

void overlap_members(Rewrite& rewrite) {
  rewrite.parts.sections.push_back(
      {SectionKind::overlap, rewrite.what.names.at(0), {rewrite.what.names.begin() + 1, rewrite.what.names.end()}});
}

Expression without_slices_of(const Expression& expression, const std::string& tensor) {
  if (expression.operands().empty()) return expression;
  if (expression.is(Operation::slice) && expression.operands()[0] == Expression::reference(tensor))
    return expression.operands()[0];
  std::vector<Expression> operands;
  for (const Expression& operand : expression.operands()) operands.push_back(without_slices_of(operand, tensor));
  return Expression::of(expression.operation(), std::move(operands), expression.attributes());
}

// The dims by which an expression slices a tensor; -1 for where it reads it whole.
void collect_slices(const Expression& expression, const std::string& tensor, std::vector<int>& dims) {
  if (expression == Expression::reference(tensor)) return dims.push_back(-1);
  if (expression.is(Operation::slice) && expression.operands()[0] == Expression::reference(tensor))
    return dims.push_back(expression.attributes().dim);
  for (const Expression& operand : expression.operands()) collect_slices(operand, tensor, dims);
}

void as_slice(Rewrite& rewrite) {
  using enum TransformationRule;
  const std::string& tensor = rewrite.what.names.at(0);
  const auto declaration = std::ranges::find(rewrite.parts.declarations, tensor, &Declaration::name);
  const TensorType type = rewrite.before.type(tensor);
  const Statement* update = rewrite.before.update_of(tensor);
  std::vector<int> dims;
  for (const Statement& statement : rewrite.before.statements()) {
    const bool stores = update != nullptr && statement.name == update->name;
    collect_slices(stores ? statement.expression.operands()[1] : statement.expression, tensor, dims);
  }
  std::ranges::sort(dims);
  dims.erase(std::ranges::unique(dims).begin(), dims.end());
  const bool declared = declaration != rewrite.parts.declarations.end();
  rewrite.check(declared && type.distribution.is(Placement::replicated) && dims.size() == 1 && dims[0] >= 0,
                as_slice_reads, tensor + " " + type.to_string());
  if (!declared || dims.empty()) return;
  const int dim = dims.back();
  declaration->type.distribution = Distribution::sliced(dim);
  for (Statement& statement : rewrite.parts.statements)
    statement.expression = without_slices_of(statement.expression, tensor);
  if (update == nullptr) return;
  const bool read_whole = !rewrite.before.consumers_of(update->name).empty() || rewrite.before.is_output(update->name);
  const Expression& value = update->expression.operands()[1];
  const Statement* gather = value.is(Operation::reference) ? rewrite.before.find_statement(value.name()) : nullptr;
  const bool gathers = gather != nullptr && gather->expression.is(Operation::all_gather);
  rewrite.check(gathers && !read_whole, as_slice_update,
                update->name + " = " + rewrite.before.written(update->expression));
  if (gathers)
    rewrite.place_of(update->name)->expression =
        coconet::update(Expression::reference(tensor), gather->expression.operands()[0]);
}

void dead(Rewrite& rewrite) {
  const std::string& name = rewrite.what.names.at(0);
  const Statement& statement = rewrite.before.statement(name);
  rewrite.check(rewrite.before.consumers_of(name).empty() && !rewrite.before.is_output(name) &&
                    !statement.expression.is(Operation::update),
                TransformationRule::dead, name + " = " + rewrite.before.written(statement.expression));
  rewrite.parts.statements.erase(rewrite.place_of(name));
  for (Section& section : rewrite.parts.sections) std::erase(section.members, name);
}

}  // namespace

void Rewrite::check(bool holds, TransformationRule rule, std::string_view got) const {
  guards.check(holds, kWhere, kRules[static_cast<size_t>(rule)], what.to_string(), got);
}

const Statement& Rewrite::free_statement(const std::string& name) const {
  const Statement& statement = before.statement(name);
  const Section* section = before.section_of(name);
  check(section == nullptr, TransformationRule::sections,
        "'" + name + "' in '" + (section == nullptr ? "" : section->name) + "'");
  return statement;
}

std::vector<Statement>::iterator Rewrite::place_of(const std::string& name) {
  const auto place = std::ranges::find(parts.statements, name, &Statement::name);
  AXONN_ASSERT(place != parts.statements.end(), "'", name, "'");
  return place;
}

Program Rewrite::finished() { return Program(std::move(parts), guards); }

std::span<const Rule> transformation_rules() { return kRules; }

namespace {

Program rewritten(const Program& program, const Transformation& transformation, const Guards& guards) {
  const size_t least = transformation.kind == TransformationKind::reorder_back ? 3
                       : transformation.kind == TransformationKind::reorder    ? 2
                                                                               : 1;
  AXONN_CHECK(transformation.names.size() >= least, kWhere, transformation.to_string(), ": needs ", least,
              " names or more");
  Rewrite rewrite(program, transformation, guards);
  switch (transformation.kind) {
    case TransformationKind::split:
      split(rewrite);
      break;
    case TransformationKind::join:
      join(rewrite);
      break;
    case TransformationKind::reorder:
      reorder_past_gather(rewrite);
      break;
    case TransformationKind::reorder_back:
      reorder_back_before_gather(rewrite);
      break;
    case TransformationKind::fuse:
      fuse(rewrite);
      break;
    case TransformationKind::overlap:
      overlap_members(rewrite);
      break;
    case TransformationKind::as_slice:
      as_slice(rewrite);
      break;
    case TransformationKind::dead:
      dead(rewrite);
      break;
  }
  return rewrite.finished();
}

}  // namespace

// Errors of the program name the transformation too, as those of its own rules do.
Program apply(const Program& program, const Transformation& transformation, const Guards& guards) {
  try {
    return rewritten(program, transformation, guards);
  } catch (const UserError& error) {
    const std::string what = transformation.to_string();
    if (error.sentence().starts_with(what)) throw;
    throw UserError(kWhere, what + ": " + error.sentence());
  }
}

}  // namespace axonn::coconet
