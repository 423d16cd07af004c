#include "coconet/oracle/section_runner.hpp"

#include <algorithm>
#include <numeric>

#include "axonn/core/philox.hpp"

namespace axonn::coconet {
namespace {

// Collectives that a fused section begins with, and operations that it ends with.
bool reduces(const Statement& statement) {
  return statement.expression.is(Operation::all_reduce) || statement.expression.is(Operation::reduce_scatter);
}
bool moves(const Statement& statement) {
  return statement.expression.is(OperationKind::send) || statement.expression.is(Operation::all_gather);
}

}  // namespace

void SectionRunner::run_program() {
  std::set<std::string> done;
  for (const Statement& statement : program_.statements()) {
    bool in_section = false;
    for (const Section& section : program_.sections()) {
      if (!is_outermost(section) || std::ranges::count(program_.statements_of(section.name), statement.name) == 0)
        continue;
      in_section = true;
      if (!done.insert(section.name).second) continue;
      if (section.kind == SectionKind::fuse)
        run_fused(section);
      else
        run_overlapped(section);
    }
    if (!in_section) runner_.run(statement, {0, runner_.loop_count(statement)});
  }
}

bool SectionRunner::is_outermost(const Section& section) const { return program_.section_of(section.name) == nullptr; }

SectionRunner::Members SectionRunner::statements_of(const std::string& member) const {
  Members members;
  for (const std::string& name : program_.statements_of(member)) members.push_back(program_.find_statement(name));
  return members;
}

void SectionRunner::run_fused(const Section& section) {
  const Members members = statements_of(section.name);
  const int64_t loop = loop_count(members);
  begin(members, {0, loop});
  for (const int number : shuffled_blocks(section)) run_block(members, block(loop, number));
  end(members, {0, loop});
}

// The last member first: what the one before it makes in the same tick is not there yet.
void SectionRunner::run_overlapped(const Section& section) {
  std::vector<Members> members;
  for (const std::string& member : section.members) members.push_back(statements_of(member));
  const auto count = static_cast<int>(members.size());
  for (int tick = 0; tick < options_.blocks + count - 1; ++tick)
    for (int k = count - 1; k >= 0; --k) {
      const int chunk = tick - k;
      if (chunk < 0 || chunk >= options_.blocks) continue;
      const auto number = static_cast<size_t>(k);
      const bool fused = program_.find_section(section.members[number]) != nullptr;
      run_member(members[number], fused, block(loop_count(members[number]), chunk));
    }
}

void SectionRunner::run_member(const Members& members, bool fused, ElementRange range) {
  if (!fused) {
    for (const Statement* statement : members) run(*statement, range);
    return;
  }
  begin(members, range);
  run_block(members, range);
  end(members, range);
}

void SectionRunner::begin(const Members& members, ElementRange range) {
  for (const Statement* statement : members)
    if (reduces(*statement)) runner_.take(*statement, range);
}

void SectionRunner::run_block(const Members& members, ElementRange range) {
  for (const Statement* statement : members) {
    if (only_stores(*statement, members)) continue;
    if (reduces(*statement))
      runner_.deliver(*statement, range);
    else if (moves(*statement))
      runner_.take(*statement, range);
    else
      run(*statement, range);
  }
}

void SectionRunner::end(const Members& members, ElementRange range) {
  for (const Statement* statement : members)
    if (moves(*statement)) runner_.take_again(*statement, range);
  for (const Statement* statement : members)
    if (moves(*statement)) runner_.deliver(*statement, range);
  for (const Statement* statement : members)
    if (only_stores(*statement, members)) runner_.run(*statement, range);
}

// A plain scalar has no blocks: it runs once, with the first.
void SectionRunner::run(const Statement& statement, ElementRange range) {
  if (!is_plain_scalar(statement)) return runner_.run(statement, range);
  if (scalars_done_.insert(statement.name).second) runner_.run(statement, {0, 1});
}

// Whether a statement is an update that stores what the section moves, and nothing else.
bool SectionRunner::only_stores(const Statement& statement, const Members& members) const {
  if (!statement.expression.is(Operation::update)) return false;
  const Expression& value = statement.expression.operands()[1];
  return value.is(Operation::reference) && std::ranges::any_of(members, [&](const Statement* member) {
           return moves(*member) && member->name == value.name();
         });
}

bool SectionRunner::is_plain_scalar(const Statement& statement) const {
  return program_.type(statement.name).group == TensorType::kEveryGroup;
}

int64_t SectionRunner::loop_count(const Members& members) const {
  for (const Statement* statement : members)
    if (!is_plain_scalar(*statement)) return runner_.loop_count(*statement);
  return 1;
}

ElementRange SectionRunner::block(int64_t loop, int64_t number) const {
  return {loop * number / options_.blocks, loop * (number + 1) / options_.blocks};
}

std::vector<int> SectionRunner::shuffled_blocks(const Section& section) const {
  std::vector<int> order(static_cast<size_t>(options_.blocks));
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = order.size(); left > 1; --left) {
    const auto words = philox(options_.order, left, 0, philox_stream("blocks", section.name));
    std::swap(order[left - 1], order[words[0] % left]);
  }
  return order;
}

}  // namespace axonn::coconet
