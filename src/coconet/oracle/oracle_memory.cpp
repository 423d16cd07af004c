#include "coconet/oracle/oracle_memory.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/typing.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.oracle";

bool is_scalar(const Declaration& declaration) { return declaration.type == scalar_type(); }

template <typename Values>
void check_names(const Program& program, const Values& values, bool scalars) {
  std::vector<std::string> names;
  for (const Declaration& declaration : program.declarations())
    if (is_scalar(declaration) == scalars) names.push_back(declaration.name);
  for (const auto& [name, value] : values)
    AXONN_CHECK(std::ranges::count(names, name) > 0, kWhere, program.name(), " declares no ",
                scalars ? "scalar '" : "tensor '", name, "': give values of declared names only",
                did_you_mean(name, std::span<const std::string>(names)));
}

double scalar_value(const Declaration& declaration, const OracleOptions& options) {
  const auto given = options.scalars.find(declaration.name);
  if (given != options.scalars.end()) return given->second;
  AXONN_CHECK(declaration.value, kWhere, "scalar '", declaration.name, "' has no value: give it one");
  return *declaration.value;
}

}  // namespace

OracleMemory::OracleMemory(const Program& program, const OracleInputs& inputs, const OracleOptions& options)
    : options_(options), groups_(program.parts().groups) {
  check_names(program, inputs, false);
  check_names(program, options.scalars, true);
  for (const Declaration& declaration : program.declarations()) {
    add(declaration.name, declaration.type);
    load(declaration, inputs);
  }
  for (const Statement& statement : program.statements()) add(statement.name, program.type(statement.name));
}

void OracleMemory::add(const std::string& name, const TensorType& type) {
  const Distribution& lies = type.distribution;
  AXONN_CHECK(!lies.is(Placement::rooted) || lies.root < options_.ranks, kWhere, "'", name, "' lies on rank ",
              lies.root, ", need one of ", options_.ranks, " ranks");
  RankValues values(extents_of(type.shape, options_.sizes), options_.ranks, missing());
  std::vector<int> holders = holders_of(lies, values.extents, options_.cut, options_.ranks);
  entries_.insert({name, {.type = type, .holders = std::move(holders), .values = std::move(values)}});
}

void OracleMemory::load(const Declaration& declaration, const OracleInputs& inputs) {
  OracleEntry& entry = entries_.at(declaration.name);
  RankValues& values = entry.values;
  if (is_scalar(declaration)) {
    values.elements.assign(values.elements.size(), scalar_value(declaration, options_));
    return;
  }
  const auto given = inputs.find(declaration.name);
  AXONN_CHECK(given != inputs.end(), kWhere, "tensor '", declaration.name, "' has no value: give it one");
  const size_t parts = entry.type.distribution.is(Placement::local) ? static_cast<size_t>(options_.ranks) : 1;
  AXONN_CHECK(given->second.size() == parts, kWhere, "tensor '", declaration.name, "' is ",
              entry.type.distribution.to_string(), ", need ", parts, " parts, got ", given->second.size());
  for (const std::vector<double>& part : given->second)
    AXONN_CHECK(std::ssize(part) == values.count, kWhere, "tensor '", declaration.name, "' needs ", values.count,
                " elements, got ", part.size());
  if (entry.type.group < 0 || entry.type.group >= groups_) return;
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = 0; i < values.count; ++i)
      if (holds(entry.holders[static_cast<size_t>(i)], rank))
        values.of(rank)[i] = given->second[parts == 1 ? 0 : static_cast<size_t>(rank)][static_cast<size_t>(i)];
}

const OracleEntry& OracleMemory::at(std::string_view name) const {
  const auto found = entries_.find(name);
  AXONN_ASSERT(found != entries_.end(), "(no value ", name, ")");
  return found->second;
}

RankValues OracleMemory::seen(std::string_view name, int group) const {
  const OracleEntry& entry = at(name);
  if (entry.type.group == group || entry.type.group == TensorType::kEveryGroup) return entry.values;
  return {entry.values.extents, options_.ranks, missing()};
}

void OracleMemory::write(const Statement& statement, ElementRange range, const RankValues& values) {
  OracleEntry& entry = entries_.find(statement.name)->second;
  OracleEntry* tensor = nullptr;
  if (statement.expression.is(Operation::update))
    tensor = &entries_.find(statement.expression.operands()[0].name())->second;
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) {
      const auto place = static_cast<size_t>(i);
      if (!holds(entry.holders[place], rank)) continue;
      if (tensor != nullptr) {
        if (i >= tensor->values.count || !holds(tensor->holders[place], rank)) continue;
        tensor->values.of(rank)[i] = values.of(rank)[i];
      }
      entry.values.of(rank)[i] = values.of(rank)[i];
    }
}

}  // namespace axonn::coconet
