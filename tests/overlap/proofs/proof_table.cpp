#include "overlap/proofs/proof_table.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <set>
#include <sstream>

namespace axonn::overlap::proofs {
namespace {

constexpr const char* kOperations = "operations";
constexpr const char* kDistributions = "distributions";
constexpr const char* kTypes = "types";
constexpr const char* kTransformations = "transformations";
constexpr const char* kSections = "sections";

using Cells = std::set<std::pair<std::string, std::string>>;

std::string name_of(Operation operation) {
  return operation == Operation::negate ? "negate" : std::string(info(operation).name);
}

void collect(const Expression& expression, Cells& cells) {
  if (!expression.is(Operation::reference) && !expression.is(Operation::constant))
    cells.insert({kOperations, name_of(expression.operation())});
  for (const Expression& operand : expression.operands()) collect(operand, cells);
}

std::string name_of(const Transformation& transformation) {
  const std::string name(axonn::to_string(transformation.kind));
  return transformation.kind == TransformationKind::split
             ? name + " by " + std::string(axonn::to_string(transformation.policy))
             : name;
}

// CoCoNet's table of fused collectives, sends, and sections that only compute.
std::string fused_name(const Program& program, const Section& section) {
  std::set<Operation> found;
  for (const std::string& name : program.statements_of(section.name))
    found.insert(program.statement(name).expression.operation());
  const auto has = [&](Operation operation) { return found.contains(operation); };
  if (has(Operation::all_reduce) || (has(Operation::reduce_scatter) && has(Operation::all_gather)) ||
      (has(Operation::reduce) && has(Operation::broadcast)))
    return "fused all_reduce";
  if (has(Operation::reduce_scatter)) return "fused reduce_scatter";
  if (has(Operation::reduce)) return "fused reduce";
  if (has(Operation::all_gather)) return "fused all_gather";
  if (has(Operation::broadcast)) return "fused broadcast";
  return has(Operation::send) ? "fused send" : "fused computation";
}

}  // namespace

ProofTable::ProofTable() {
  for (const OperationInfo& row : operations())
    if (row.operation != Operation::reference && row.operation != Operation::constant)
      cells_[kOperations][name_of(row.operation)] = {};
  for (const auto& row : Names<Placement>::all) cells_[kDistributions][std::string(row.name)] = {};
  for (const auto& row : Names<ElementType>::all)
    if (row.value != ElementType::boolean) cells_[kTypes][std::string(row.name)] = {};
  for (const auto& kind : Names<TransformationKind>::all)
    for (const auto& policy : Names<SplitPolicy>::all)
      cells_[kTransformations][name_of(Transformation{.kind = kind.value, .names = {}, .policy = policy.value})] = {};
  for (const char* name : {"fused computation", "fused all_reduce", "fused reduce_scatter", "fused reduce",
                           "fused all_gather", "fused broadcast", "fused send", "overlap"})
    cells_[kSections][name] = {};
}

void ProofTable::count(const Program& original, const Program& scheduled, const std::vector<Transformation>& log,
                       bool executed) {
  Cells cells;
  for (const Program* program : {&original, &scheduled})
    for (const Statement& statement : program->statements()) {
      collect(statement.expression, cells);
      const TensorType& type = program->type(statement.name);
      cells.insert({kDistributions, std::string(axonn::to_string(type.distribution.placement))});
      cells.insert({kTypes, std::string(axonn::to_string(type.element))});
    }
  for (const Transformation& transformation : log) cells.insert({kTransformations, name_of(transformation)});
  for (const Section& section : scheduled.sections())
    cells.insert({kSections, section.kind == SectionKind::overlap ? "overlap" : fused_name(scheduled, section)});
  for (const auto& [group, cell] : cells) {
    const auto found = cells_[group].find(cell);
    if (found == cells_[group].end()) continue;
    ++found->second.compared;
    found->second.executed += executed ? 1 : 0;
  }
}

int64_t ProofTable::smallest() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& [group, cells] : cells_)
    for (const auto& [cell, programs] : cells) least = std::min(least, programs.compared);
  return least;
}

std::string ProofTable::to_text() const {
  std::ostringstream text;
  text << std::left << std::setw(28) << "programs" << std::setw(10) << "compared" << "executed\n";
  for (const auto& [group, cells] : cells_) {
    text << group << "\n";
    for (const auto& [cell, programs] : cells)
      text << "  " << std::setw(26) << cell << std::setw(10) << programs.compared << programs.executed << "\n";
  }
  return std::move(text).str();
}

}  // namespace axonn::overlap::proofs
