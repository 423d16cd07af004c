#include "coconet/plan/lowering.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "axonn/core/error.hpp"
#include "coconet/plan/overlap_check.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.plan";

bool reduces(const Expression& root) {
  return root.is(Operation::all_reduce) || root.is(Operation::reduce_scatter) || root.is(Operation::reduce);
}

bool moves(const Expression& root) {
  return (root.is(OperationKind::collective) && !reduces(root)) || root.is(OperationKind::send);
}

bool is_view(const Expression& root) {
  return root.is(OperationKind::part) && root.operands()[0].is(Operation::reference);
}

}  // namespace

void Lowering::run() {
  choose_homes();
  std::set<std::string> done;
  for (const Statement& statement : program_.statements()) {
    if (done.contains(statement.name)) continue;
    std::string name = statement.name;
    for (const Section* section = program_.section_of(name); section != nullptr; section = program_.section_of(name))
      name = section->name;
    const std::vector<std::string> statements = program_.statements_of(name);
    done.insert(statements.begin(), statements.end());
    add_section(name);
  }
  add_waits();
}

// A number that is made of the program's scalars is computed once, before its section begins. What
// only stores a value that the section gathers follows it.
void Lowering::add_section(const std::string& name) {
  const std::vector<std::string> statements = program_.statements_of(name);
  for (const std::string& one : statements)
    if (is_plain(one)) add_step({one}, one);
  const auto section = std::ranges::find(program_.sections(), name, &Section::name);
  if (section != program_.sections().end() && section->kind == SectionKind::overlap)
    add_overlap(*section, statements);
  else
    add_member(name, statements);
  for (const std::string& one : statements)
    if (stores_a_gather(one, statements)) add_step({one}, one);
}

void Lowering::add_member(const std::string& name, const std::vector<std::string>& section) {
  std::vector<std::string> inside = program_.statements_of(name);
  std::erase_if(inside, [&](const std::string& one) { return is_plain(one) || stores_a_gather(one, section); });
  if (!inside.empty()) add_step(inside, name);
}

void Lowering::add_overlap(const Section& overlap, const std::vector<std::string>& statements) {
  if (sends(overlap)) return add_transfer(overlap);
  const size_t first = plan_.steps_.size();
  for (const std::string& member : overlap.members) add_member(member, statements);
  OverlapCheck(plan_, overlap, std::span(plan_.steps_).subspan(first)).run();
  plan_.steps_.back().producer = plan_.steps_[first].name;
}

bool Lowering::sends(const Section& overlap) const {
  return std::ranges::any_of(program_.statements_of(overlap.name), [&](const std::string& one) {
    return program_.statement(one).expression.is(Operation::send);
  });
}

void Lowering::add_transfer(const Section& overlap) {
  PlanStep step{.kind = StepKind::transfer, .name = overlap.name, .statements = {}};
  for (const std::string& one : program_.statements_of(overlap.name)) {
    if (is_plain(one)) continue;
    const Expression& root = program_.statement(one).expression;
    step.statements.push_back(one);
    if (reduces(root) && step.reducer.empty()) step.reducer = one;
    if (root.is(Operation::send) && step.mover.empty()) step.mover = one;
    if (root.is(Operation::all_gather)) step.arrival = one;
  }
  step.group = group_of(step.mover);
  TransferCheck(plan_, overlap, step).run();
  collect_accesses(step);
  plan_.steps_.push_back(std::move(step));
}

// The overlap that a statement is in, by itself or in a fused section; or null.
const Section* Lowering::overlap_of(const std::string& statement) const {
  const Section* section = program_.section_of(statement);
  if (section != nullptr && section->kind == SectionKind::fuse) section = program_.section_of(section->name);
  return section;
}

bool Lowering::is_plain(const std::string& value) const {
  return program_.type(value).group == TensorType::kEveryGroup;
}

// Whether a statement stores what another one of its section gathers, in a place of its own.
bool Lowering::stores_a_gather(const std::string& name, const std::vector<std::string>& section) const {
  const Statement& statement = program_.statement(name);
  if (!statement.expression.is(Operation::update) || is_stored_already(statement)) return false;
  const Expression& value = statement.expression.operands()[1];
  return value.is(Operation::reference) && std::ranges::count(section, value.name()) > 0 &&
         moves(program_.statement(value.name()).expression);
}

bool Lowering::is_number(const std::string& value) const {
  const TensorType& type = program_.type(value);
  return type.is_scalar() && type.distribution.is(Placement::replicated);
}

// The tensor in whose place a value is stored in the end, or "".
std::string Lowering::stored_by(const std::string& value) const {
  const std::vector<std::string> readers = program_.consumers_of(value);
  for (const std::string& reader : readers) {
    const Expression& root = program_.statement(reader).expression;
    if (root.is(Operation::update) && root.operands()[1] == Expression::reference(value))
      return root.operands()[0].name();
    if (moves(root) && !root.is(Operation::send))
      if (const std::string tensor = stored_by(reader); !tensor.empty()) return tensor;
  }
  return "";
}

// Whether the old value of a tensor is read before `writer`, or element by element in it only.
bool Lowering::nobody_reads_after(const std::string& tensor, const Statement& writer) const {
  const auto reads_rows = [&](const Statement& statement) {
    return statement.expression.is(OperationKind::layer) && statement.expression.refers_to(tensor);
  };
  if (reads_rows(writer)) return false;
  if (const Section* overlap = overlap_of(writer.name); overlap != nullptr)  // an earlier member still reads then
    for (const std::string& beside : program_.statements_of(overlap->name))
      if (reads_rows(program_.statement(beside))) return false;
  bool after = false;
  for (const Statement& statement : program_.statements()) {
    const bool stores =
        statement.expression.is(Operation::update) && statement.expression.operands()[0].name() == tensor;
    const Expression& read = stores ? statement.expression.operands()[1] : statement.expression;
    if (after && read.refers_to(tensor)) return false;
    after = after || statement.name == writer.name;
  }
  return true;
}

// A sum may take the place of a local tensor that nobody else reads.
bool Lowering::in_place(const Statement& statement) const {
  const std::string& local = statement.expression.operands()[0].name();
  const std::string& home = plan_.homes_.at(local);
  const bool whole_or_part =
      statement.expression.is(Operation::all_reduce) || statement.expression.is(Operation::reduce_scatter);
  return whole_or_part && !is_number(statement.name) && program_.consumers_of(local).size() == 1 && !home.empty() &&
         program_.update_of(home) == nullptr && !program_.is_output(local);
}

// The slices of a transfer: the sums until they are sent, and what was sent until it is gathered.
bool Lowering::stays_in_messages(const Statement& statement) const {
  const Section* overlap = overlap_of(statement.name);
  const bool passes = statement.expression.is(Operation::reduce_scatter) || statement.expression.is(Operation::send);
  if (!passes || overlap == nullptr || !sends(*overlap) || program_.is_output(statement.name)) return false;
  const std::vector<std::string> inside = program_.statements_of(overlap->name);
  return std::ranges::all_of(program_.consumers_of(statement.name),
                             [&](const std::string& reader) { return std::ranges::count(inside, reader) > 0; });
}

// A slice or load lies in the memory of what it takes a part of, if that keeps its value.
bool Lowering::is_view_in_place(const Statement& statement) const {
  if (!is_view(statement.expression)) return false;
  const std::string& home = plan_.homes_.at(statement.expression.operands()[0].name());
  return !home.empty() && program_.update_of(home) == nullptr;
}

// A value of a fused section that only the section reads. What a tensor stores is in memory, and so
// is what a collective brings.
bool Lowering::stays_in_registers(const std::string& value) const {
  const Section* section = program_.section_of(value);
  if (section == nullptr || section->kind != SectionKind::fuse) return false;
  if (program_.is_output(value) || is_plain(value)) return false;
  const Expression& root = program_.statement(value).expression;
  if (root.is(Operation::update) || root.is(OperationKind::reduction) || moves(root)) return false;
  if (reduces(root) && std::ranges::any_of(program_.consumers_of(value), [&](const std::string& reader) {
        return moves(program_.statement(reader).expression);
      }))
    return false;
  return std::ranges::all_of(program_.consumers_of(value),
                             [&](const std::string& reader) { return program_.section_of(reader) == section; });
}

// The dim that a product sums over is cut as in the program. Other slices are blocks of the flat
// tensor.
bool Lowering::only_products_read(const std::string& tensor) const {
  const std::vector<std::string> readers = program_.consumers_of(tensor);
  return !readers.empty() && !program_.is_output(tensor) && std::ranges::all_of(readers, [&](const std::string& one) {
    return program_.statement(one).expression.is(Operation::matmul);
  });
}

std::string Lowering::home_of(const Statement& statement) const {
  const Expression& root = statement.expression;
  if (root.is(Operation::update)) return root.operands()[0].name();
  if (is_number(statement.name)) return "";
  if (is_view_in_place(statement)) return plan_.homes_.at(root.operands()[0].name());
  if (stays_in_messages(statement)) return "";
  const std::string tensor = stored_by(statement.name);
  if (!tensor.empty() && nobody_reads_after(tensor, statement)) return tensor;
  if (stays_in_registers(statement.name)) return "";
  if (reduces(root) && in_place(statement)) return plan_.homes_.at(root.operands()[0].name());
  return statement.name;
}

void Lowering::choose_homes() {
  for (const Declaration& declaration : program_.declarations()) {
    const bool number = is_number(declaration.name);
    plan_.homes_[declaration.name] = number ? "" : declaration.name;
    if (!number)
      plan_.buffers_.push_back(
          {.name = declaration.name,
           .type = declaration.type,
           .declared = true,
           .updated = program_.update_of(declaration.name) != nullptr,
           .by_dim = declaration.type.distribution.is(Placement::sliced) && only_products_read(declaration.name)});
  }
  for (const Statement& statement : program_.statements()) {
    const std::string home = home_of(statement);
    plan_.homes_[statement.name] = home;
    if (home == statement.name) plan_.buffers_.push_back({.name = home, .type = program_.type(home)});
    if (!reduces(statement.expression) || is_number(statement.name) || home == statement.name) continue;
    const std::string& summed = plan_.homes_.at(statement.expression.operands()[0].name());
    if (home == summed || (stays_in_messages(statement) && in_place(statement)))
      std::ranges::find(plan_.buffers_, summed, &PlanBuffer::name)->overwritten = true;
  }
}

// An update whose value was computed in the tensor's place: nothing is left to do.
bool Lowering::is_stored_already(const Statement& statement) const {
  const Expression& root = statement.expression;
  return root.is(Operation::update) && root.operands()[1].is(Operation::reference) &&
         plan_.home(root.operands()[1].name()) == root.operands()[0].name();
}

void Lowering::add_step(const std::vector<std::string>& statements, const std::string& name) {
  PlanStep step{.name = name, .statements = {}};
  bool computes = false, numbers_only = true, sections = statements.size() > 1;
  for (const std::string& statement_name : statements) {
    const Statement& statement = program_.statement(statement_name);
    const Expression& root = statement.expression;
    if (is_stored_already(statement) || (is_view_in_place(statement) && !sections)) continue;
    step.statements.push_back(statement_name);
    if (reduces(root)) {
      AXONN_CHECK(step.reducer.empty(), kWhere, "fuse ", name, ": needs at most one collective that reduces, got ",
                  step.reducer, " and ", statement_name);
      step.reducer = statement_name;
    } else if (moves(root)) {
      AXONN_CHECK(step.mover.empty(), kWhere, "fuse ", name,
                  ": needs at most one collective that gathers or sends, got ", step.mover, " and ", statement_name);
      step.mover = statement_name;
    } else if (root.is(OperationKind::layer)) {
      step.kind = StepKind::layer;
    } else {
      computes = true;
    }
    numbers_only &= is_number(statement_name) && !root.is(OperationKind::reduction);
  }
  if (step.statements.empty()) return;
  const bool communicates = !step.reducer.empty() || !step.mover.empty();
  if (communicates)
    step.kind = computes || (!step.reducer.empty() && !step.mover.empty()) ? StepKind::fused : StepKind::collective;
  else if (numbers_only)
    step.kind = StepKind::scalars;
  if (step.kind == StepKind::fused) check_section(step);
  if (step.statements.size() > 1) check_extents(step);
  step.group = group_of(step.statements.front());
  collect_accesses(step);
  plan_.steps_.push_back(std::move(step));
}

// Executors run computations on finished sums at their owner, and before a gather or send.
void Lowering::check_section(const PlanStep& step) const {
  if (step.reducer.empty()) return;
  const Expression& root = program_.statement(step.reducer).expression;
  AXONN_CHECK(!root.is(Operation::all_reduce), kWhere, "fuse ", step.name, ": every rank would compute all of it; ",
              "split(", step.reducer, ", reduce_scatter) and reorder it first");
  if (step.mover.empty()) return;
  const Expression& mover = program_.statement(step.mover).expression;
  AXONN_CHECK(mover.is(Operation::all_gather), kWhere, "fuse ", step.name,
              ": needs all_gather with reduce_scatter, got ", program_.written(mover));
}

// A section has one loop: over all elements, over this rank's part, or over all on a root.
void Lowering::check_extents(const PlanStep& step) const {
  const auto lies = [&](const std::string& name) {
    const Expression& root = program_.statement(name).expression;
    const bool of_operand = name == step.mover || root.is(OperationKind::reduction);
    return (of_operand ? program_.type(root.operands()[0]) : program_.type(name)).distribution;
  };
  const auto is_host_number = [&](const std::string& name) {
    return is_number(name) && !program_.statement(name).expression.is(OperationKind::reduction);
  };
  const std::string& first = step.statements.front();
  for (const std::string& name : step.statements) {
    const Distribution a = lies(first), b = lies(name);
    const bool alike =
        extent_of(a) == extent_of(b) && a.root == b.root && is_host_number(first) == is_host_number(name);
    AXONN_CHECK(group_of(first) == group_of(name), kWhere, "fuse ", step.name, ": needs values of one group, got ",
                first, " on ", group_of(first), " and ", name, " on ", group_of(name), "; fuse those of each group");
    AXONN_CHECK(alike, kWhere, "fuse ", step.name, ": needs values that lie alike, got ", program_.written(first), " ",
                a.to_string(), " and ", program_.written(name), " ", b.to_string());
  }
}

// Whose ranks compute a statement: a send's are those that have its operand.
int Lowering::group_of(const std::string& statement) const {
  const Expression& root = program_.statement(statement).expression;
  return root.is(Operation::send) ? program_.type(root.operands()[0]).group : program_.type(statement).group;
}

Extent Lowering::extent_of(const Distribution& lies) {
  return lies.is(Placement::sliced) ? Extent::part : lies.is(Placement::rooted) ? Extent::root : Extent::whole;
}

Extent Lowering::extent_of(const std::string& value) const { return extent_of(program_.type(value).distribution); }

void Lowering::collect_reads(const Expression& expression, PlanStep& step, const std::set<std::string>& inside) const {
  const auto add = [&](const std::string& value, Extent extent) {
    const PlanAccess access{plan_.home(value), extent};
    if (!access.buffer.empty() && !inside.contains(value) && std::ranges::count(step.reads, access) == 0)
      step.reads.push_back(access);
  };
  if (expression.is(Operation::reference)) return add(expression.name(), extent_of(expression.name()));
  if (is_view(expression))
    return add(expression.operands()[0].name(), expression.is(Operation::slice) ? Extent::part : Extent::root);
  for (const Expression& operand : expression.operands()) collect_reads(operand, step, inside);
}

void Lowering::collect_accesses(PlanStep& step) const {
  const std::set<std::string> inside(step.statements.begin(), step.statements.end());
  for (const std::string& name : step.statements) {
    const Expression& root = program_.statement(name).expression;
    if (name == step.mover || name == step.reducer || name == step.arrival) continue;
    if (root.is(Operation::update))
      collect_reads(root.operands()[1], step, inside);
    else
      collect_reads(root, step, inside);
  }
  for (const std::string& name : step.statements) {
    const PlanAccess access{plan_.home(name), extent_of(name)};
    const bool collective =
        name == step.mover || name == step.arrival || (name == step.reducer && step.kind == StepKind::collective);
    if (!collective && !access.buffer.empty() && std::ranges::count(step.writes, access) == 0)
      step.writes.push_back(access);
  }
}

void Lowering::add_waits() {
  // A value's step, also for values that are stored already or are views.
  std::map<std::string, size_t> step_of;
  for (size_t i = 0; i < plan_.steps_.size(); ++i)
    for (const std::string& name : plan_.steps_[i].statements) step_of[name] = i;
  for (const Statement& statement : program_.statements()) {
    if (step_of.contains(statement.name)) continue;
    const Expression& source = statement.expression.operands().back();
    if (const auto step = step_of.find(source.name()); step != step_of.end()) step_of[statement.name] = step->second;
  }
  // A step also waits for those that read or write a buffer before it writes there.
  std::map<std::string, std::vector<size_t>> touched;
  for (size_t i = 0; i < plan_.steps_.size(); ++i) {
    PlanStep& step = plan_.steps_[i];
    std::set<size_t> waits;
    std::set<std::string> buffers;
    for (const std::string& name : step.statements) {
      program_.statement(name).expression.for_each_reference([&](const std::string& read) {
        if (const auto source = step_of.find(read); source != step_of.end() && source->second < i)
          waits.insert(source->second);
        buffers.insert(plan_.home(read));
      });
      const std::string& home = plan_.home(name);
      if (!home.empty()) waits.insert(touched[home].begin(), touched[home].end());
      buffers.insert(home);
    }
    for (const std::string& buffer : buffers) touched[buffer].push_back(i);
    if (!step.producer.empty()) waits.erase(i - 1);  // it waits for its parts only
    step.after.assign(waits.begin(), waits.end());
  }
}

}  // namespace axonn::coconet
