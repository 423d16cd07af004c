#include "axonn/coconet/tune/schedule_search.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "axonn/coconet/tune/schedule_key.hpp"
#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

using Kind = TransformationKind;
constexpr size_t kMostReordered = 5;  // where there are more readers: sets of the first ones, and all

// A section, or a statement outside of sections: what runs as one.
struct Unit {
  std::string name;
  bool computes = true;  // neither collective nor layer
};

// A statement that only stores another one's value, such as reorder makes of updates. It goes where
// the value goes.
bool only_stores(const Program& program, const Statement& statement) {
  const Expression& root = statement.expression;
  return root.is(Operation::update) && root.operands()[1].is(Operation::reference) &&
         program.find_statement(root.operands()[1].name()) != nullptr;
}

// A number, or one per row, that is computed of others: too little for a schedule of its own.
bool is_small(const Program& program, const Statement& statement) {
  const Expression& root = statement.expression;
  const auto has_one_number = [](const Shape& shape) {
    return shape.empty() || std::ranges::any_of(shape, [](const Size& size) { return size.is_one(); });
  };
  return has_one_number(program.type(statement.name).shape) && !root.is(OperationKind::reduction);
}

std::vector<Unit> units_of(const Program& program) {
  std::vector<Unit> units;
  for (const Statement& statement : program.statements()) {
    const Section* section = program.section_of(statement.name);
    const Expression& root = statement.expression;
    if (section == nullptr && (only_stores(program, statement) || is_small(program, statement))) continue;
    const std::string& name = section == nullptr ? statement.name : section->name;
    if (units.empty() || units.back().name != name) units.push_back({name});
    const bool computes =
        !root.is(OperationKind::collective) && !root.is(OperationKind::send) && !root.is(OperationKind::layer);
    units.back().computes = units.back().computes && computes;
  }
  return units;
}

std::optional<Schedule> with(const Schedule& schedule, const Transformation& transformation) {
  try {
    Schedule made = schedule;
    made.apply(transformation);
    return made;
  } catch (const UserError&) {
    return {};
  }
}

// A name that the program does not have.
std::string new_section(const Program& program, const std::string& kind) {
  for (int i = 1;; ++i) {
    std::string name = kind + std::to_string(i);
    if (program.find_section(name) == nullptr && program.find_statement(name) == nullptr &&
        program.find_declaration(name) == nullptr)
      return name;
  }
}

// Two units as one section, with what stores their values if that is allowed.
std::optional<Schedule> with_fused(const Schedule& schedule, const Unit& a, const Unit& b) {
  const Program& program = schedule.program();
  const Transformation move{Kind::fuse, {new_section(program, "part"), a.name, b.name}};
  std::set<std::string> inside;
  for (const Unit* unit : {&a, &b})
    for (std::string& name : program.statements_of(unit->name)) inside.insert(std::move(name));
  Transformation with_stores = move;
  for (const Statement& statement : program.statements())
    if (only_stores(program, statement) && program.section_of(statement.name) == nullptr &&
        inside.contains(statement.expression.operands()[1].name()))
      with_stores.names.push_back(statement.name);
  if (with_stores.names.size() > move.names.size())
    if (auto made = with(schedule, with_stores)) return made;
  return with(schedule, move);
}

bool has_plan(const Program& program) { return !run_key(program).empty(); }

bool has_overlap(const Program& program) {
  return std::ranges::count(program.sections(), SectionKind::overlap, &Section::kind) > 0;
}

// Whether a collective of `consumer` reads a value that `producer` computes.
bool hands_over(const Program& program, const Unit& producer, const Unit& consumer) {
  const std::vector<std::string> made = program.statements_of(producer.name);
  return std::ranges::any_of(program.statements_of(consumer.name), [&](const std::string& name) {
    const Expression& root = program.statement(name).expression;
    return root.is(OperationKind::collective) && root.operands()[0].is(Operation::reference) &&
           std::ranges::count(made, root.operands()[0].name()) > 0;
  });
}

bool slices(const Expression& expression, const std::string& tensor) {
  if (expression.is(Operation::slice)) return expression.refers_to(tensor);
  return std::ranges::any_of(expression.operands(), [&](const Expression& each) { return slices(each, tensor); });
}

// Whether a tensor is computed and then summed, so that an overlap is possible.
bool sums_computed(const Program& program) {
  return std::ranges::any_of(program.statements(), [&](const Statement& statement) {
    const Expression& root = statement.expression;
    if (!root.is(Operation::all_reduce) && !root.is(Operation::reduce_scatter)) return false;
    const Expression& summed = root.operands()[0];
    return summed.is(Operation::reference) && program.find_statement(summed.name()) != nullptr &&
           !is_small(program, statement);
  });
}

// Without what nobody reads, and with slices of tensors if that is asked for.
Schedule simplified(Schedule schedule, bool slices_tensors) {
  bool changed = true;
  while (changed) {
    changed = false;
    const Program program = schedule.program();
    const auto apply = [&](Kind kind, const std::string& name) {
      if (auto made = with(schedule, {kind, {name}})) {
        schedule = std::move(*made);
        changed = true;
      }
    };
    for (const Declaration& declaration : program.declarations())
      if (slices_tensors && std::ranges::any_of(program.statements(), [&](const Statement& each) {
            return slices(each.expression, declaration.name);
          }))
        apply(Kind::as_slice, declaration.name);
    for (const Statement& statement : program.statements())
      if (!statement.expression.is(Operation::update) && !program.is_output(statement.name) &&
          schedule.program().consumers_of(statement.name).empty())
        apply(Kind::dead, statement.name);
  }
  return schedule;
}

Schedule with_fused_computations(Schedule schedule) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<Unit> units = units_of(schedule.program());
    for (size_t i = 0; i < units.size() && !changed; ++i)
      for (size_t j = i + 1; j < units.size() && !changed; ++j) {
        if (!units[i].computes || !units[j].computes) continue;
        const auto made = with_fused(schedule, units[i], units[j]);
        if (!made || (has_plan(schedule.program()) && !has_plan(made->program()))) continue;
        schedule = *made;
        changed = true;
      }
  }
  return schedule;
}

class Space {
 public:
  Space(const Program& program, size_t most, const std::function<bool()>& enough) : most_(most) {
    add(Schedule(program));
    add(with_fused_computations(Schedule(program)));
    const size_t first = space_.schedules.size() - 1;  // the program itself is not transformed further
    for (size_t next = first; next < space_.schedules.size() && space_.complete; ++next) {
      if (enough && enough()) {
        space_.complete = false;
        return;
      }
      const Schedule from = space_.schedules[next];
      add_overlaps(from);
      if (has_overlap(from.program())) continue;
      add_splits(from);
      add_reorders(from);
      add_fusions(from);
    }
  }

  ScheduleSpace finish() { return std::move(space_); }

 private:
  void add(const std::optional<Schedule>& schedule, bool needs_plan = false) {
    if (!schedule) return;
    const std::string text = canonical_text(schedule->program());
    if (known_.contains(text) || (needs_plan && without_plan_.contains(text))) return;
    if (needs_plan && !has_plan(schedule->program())) {
      without_plan_.insert(text);
      return;
    }
    known_.insert(text);
    space_.complete = space_.schedules.size() < most_;
    if (space_.complete) space_.schedules.push_back(*schedule);
  }

  void add_splits(const Schedule& from) {
    const Program& program = from.program();
    for (const Statement& statement : program.statements()) {
      if (!statement.expression.is(Operation::all_reduce) || is_small(program, statement)) continue;
      const int dims = static_cast<int>(program.type(statement.name).shape.size());
      for (int dim = 0; dim < dims; ++dim)
        add(with(from,
                 {.kind = Kind::split, .names = {statement.name}, .policy = SplitPolicy::reduce_scatter, .dim = dim}));
      add(with(from, {.kind = Kind::split, .names = {statement.name}, .policy = SplitPolicy::reduce}));
    }
  }

  // The computations that are made of a value, and of what they make of it.
  static std::vector<std::string> made_of(const Program& program, const std::string& value) {
    std::set<std::string> values = {value};
    std::vector<std::string> found;
    for (const Unit& unit : units_of(program)) {
      const std::vector<std::string> statements = program.statements_of(unit.name);
      const bool reads = std::ranges::any_of(statements, [&](const std::string& name) {
        return std::ranges::any_of(
            values, [&](const std::string& each) { return program.statement(name).expression.refers_to(each); });
      });
      if (!reads || !unit.computes) continue;
      found.push_back(unit.name);
      values.insert(statements.begin(), statements.end());
    }
    return found;
  }

  void add_reorders(const Schedule& from) {
    for (const Statement& statement : from.program().statements()) {
      const Expression& root = statement.expression;
      if (!root.is(Operation::all_gather) && !root.is(Operation::broadcast)) continue;
      const std::vector<std::string> readers = made_of(from.program(), statement.name);
      const size_t sets = size_t{1} << std::min(readers.size(), kMostReordered);
      for (size_t set = 1; set < sets; ++set) add_reorder(from, statement.name, readers, set);
      if (readers.size() > kMostReordered) add_reorder(from, statement.name, readers, ~size_t{0});
    }
  }

  void add_reorder(const Schedule& from, const std::string& gather, const std::vector<std::string>& readers,
                   size_t set) {
    Transformation move{Kind::reorder, {gather}};
    for (size_t i = 0; i < readers.size(); ++i)
      if ((set >> std::min<size_t>(i, 63) & 1) != 0) move.names.push_back(readers[i]);
    const auto made = with(from, move);
    if (!made) return;
    add(simplified(*made, true));
    if (sums_computed(from.program())) add(simplified(*made, false));
  }

  void add_fusions(const Schedule& from) {
    const std::vector<Unit> units = units_of(from.program());
    const bool planned = has_plan(from.program());
    for (size_t i = 0; i < units.size(); ++i)
      for (size_t j = i + 1; j < units.size(); ++j) add(with_fused(from, units[i], units[j]), planned);
  }

  void add_overlaps(const Schedule& from) {
    const Program& program = from.program();
    const std::vector<Unit> units = units_of(program);
    for (const Unit& producer : units)
      for (const Unit& consumer : units) {
        if (producer.name == consumer.name || !hands_over(program, producer, consumer)) continue;
        add(with(from, {Kind::overlap, {new_section(program, "both"), producer.name, consumer.name}}), true);
      }
  }

  size_t most_;
  ScheduleSpace space_;
  std::set<std::string> known_, without_plan_;
};

}  // namespace

ScheduleSpace schedule_space(const Program& program, size_t most, const std::function<bool()>& enough) {
  return Space(program, most, enough).finish();
}

}  // namespace axonn::coconet
