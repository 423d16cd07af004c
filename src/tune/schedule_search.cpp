#include "axonn/tune/schedule_search.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "axonn/core/error.hpp"
#include "tune/schedule_key.hpp"
#include "tune/search_moves.hpp"

namespace axonn::tune {
namespace {

using Kind = coconet::TransformationKind;
constexpr size_t kMostReordered = 5;  // readers of which all sets are moved; if there are more, all of them, too

bool has_overlap(const coconet::Program& program) {
  return std::ranges::count(program.sections(), coconet::SectionKind::overlap, &coconet::Section::kind) > 0;
}

class Space {
 public:
  Space(const coconet::Program& program, size_t most, const std::function<bool()>& enough) : most_(most) {
    add(coconet::Schedule(program));
    add(with_fused_computations(coconet::Schedule(program)));
    const size_t first = space_.schedules.size() - 1;  // the program itself is not transformed further
    for (size_t next = first; next < space_.schedules.size() && space_.complete; ++next) {
      if (enough && enough()) {
        space_.complete = false;
        return;
      }
      const coconet::Schedule from = space_.schedules[next];
      add_overlaps(from);
      if (has_overlap(from.program())) continue;
      add_splits(from);
      add_reorders(from);
      add_fusions(from);
    }
  }

  ScheduleSpace finish() { return std::move(space_); }

 private:
  void add(const std::optional<coconet::Schedule>& schedule, bool needs_plan = false) {
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

  void add_splits(const coconet::Schedule& from) {
    const coconet::Program& program = from.program();
    for (const coconet::Statement& statement : program.statements()) {
      if (!statement.expression.is(coconet::Operation::all_reduce) || is_small(program, statement)) continue;
      const int dims = static_cast<int>(program.type(statement.name).shape.size());
      for (int dim = 0; dim < dims; ++dim)
        add(with(from, {.kind = Kind::split,
                        .names = {statement.name},
                        .policy = coconet::SplitPolicy::reduce_scatter,
                        .dim = dim}));
      add(with(from, {.kind = Kind::split, .names = {statement.name}, .policy = coconet::SplitPolicy::reduce}));
    }
  }

  // The computations that are made of a value, and of what they make of it.
  static std::vector<std::string> made_of(const coconet::Program& program, const std::string& value) {
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

  void add_reorders(const coconet::Schedule& from) {
    for (const coconet::Statement& statement : from.program().statements()) {
      const coconet::Expression& root = statement.expression;
      if (!root.is(coconet::Operation::all_gather) && !root.is(coconet::Operation::broadcast)) continue;
      const std::vector<std::string> readers = made_of(from.program(), statement.name);
      const size_t sets = size_t{1} << std::min(readers.size(), kMostReordered);
      for (size_t set = 1; set < sets; ++set) add_reorder(from, statement.name, readers, set);
      if (readers.size() > kMostReordered) add_reorder(from, statement.name, readers, ~size_t{0});
    }
  }

  void add_reorder(const coconet::Schedule& from, const std::string& gather, const std::vector<std::string>& readers,
                   size_t set) {
    coconet::Transformation move{Kind::reorder, {gather}};
    for (size_t i = 0; i < readers.size(); ++i)
      if ((set >> std::min<size_t>(i, 63) & 1) != 0) move.names.push_back(readers[i]);
    const auto made = with(from, move);
    if (!made) return;
    add(simplified(*made, true));
    if (sums_computed(from.program())) add(simplified(*made, false));
  }

  void add_fusions(const coconet::Schedule& from) {
    const std::vector<Unit> units = units_of(from.program());
    const bool planned = has_plan(from.program());
    for (size_t i = 0; i < units.size(); ++i)
      for (size_t j = i + 1; j < units.size(); ++j) add(with_fused(from, units[i], units[j]), planned);
  }

  void add_overlaps(const coconet::Schedule& from) {
    const coconet::Program& program = from.program();
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

ScheduleSpace schedule_space(const coconet::Program& program, size_t most, const std::function<bool()>& enough) {
  return Space(program, most, enough).finish();
}

}  // namespace axonn::tune
