#include "coconet/proofs/proof_table.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>
#include <set>
#include <sstream>

namespace axonn::coconet::proofs {
namespace {

constexpr const char* kOperations = "operations";
constexpr const char* kDistributions = "distributions";
constexpr const char* kTypes = "types";
constexpr const char* kTransformations = "transformations";
constexpr const char* kSections = "sections";
constexpr const char* kRanks = "ranks of a group";
constexpr const char* kGroups = "groups";
constexpr const char* kRoots = "roots";
constexpr const char* kSizes = "the largest tensor";
constexpr const char* kDeclared = "types of declared tensors";
constexpr const char* kSizeNames[] = {"to 64 elements", "to 1024 elements", "more than 1024", "more than 64 rows"};

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

// CoCoNet's table of fused collectives, sends, sections that only compute, and overlaps.
std::string section_name(const Program& program, const Section& section) {
  std::set<Operation> found;
  for (const std::string& name : program.statements_of(section.name))
    found.insert(program.statement(name).expression.operation());
  const auto has = [&](Operation operation) { return found.contains(operation); };
  if (section.kind == SectionKind::overlap) {
    const bool sums = has(Operation::all_reduce) || has(Operation::reduce_scatter);
    if (has(Operation::send)) return sums ? "overlap, sum and send" : "overlap, send";
    return !sums ? "overlap, others" : has(Operation::matmul) ? "overlap, product and sum" : "overlap, loop and sum";
  }
  if (has(Operation::all_reduce) || (has(Operation::reduce_scatter) && has(Operation::all_gather)))
    return "fused all_reduce";
  if (has(Operation::reduce_scatter)) return "fused reduce_scatter";
  if (has(Operation::all_gather)) return "fused all_gather";
  return has(Operation::send) ? "fused send" : "fused computation";
}

std::string root_name(int root) { return root < 3 ? std::to_string(root) : "3 and more"; }
std::string types_name(size_t types) { return types < 3 ? std::to_string(types) : "3 and more"; }

void collect_dimensions(const RandomProgram& random, const Program& scheduled, Cells& cells) {
  cells.insert({kRanks, std::to_string(random.ranks)});
  cells.insert({kGroups, std::to_string(random.program.parts().groups)});
  const auto add_root = [&](const TensorType& type) {
    if (type.distribution.is(Placement::rooted)) cells.insert({kRoots, root_name(type.distribution.root)});
  };
  int64_t largest = 0, rows = 0;
  std::set<ElementType> types;
  for (const Declaration& declaration : random.program.declarations()) {
    const Extents extents = extents_of(declaration.type.shape, random.sizes);
    largest = std::max(largest, count_of(extents));
    if (extents.size() > 1) rows = std::max(rows, count_of(extents) / extents.back());
    if (!declaration.type.is_scalar()) types.insert(declaration.type.element);
    add_root(declaration.type);
  }
  for (const Statement& statement : scheduled.statements()) add_root(scheduled.type(statement.name));
  cells.insert({kSizes, kSizeNames[largest <= 64 ? 0 : largest <= 1024 ? 1 : 2]});
  if (rows > 64) cells.insert({kSizes, kSizeNames[3]});
  cells.insert({kDeclared, types_name(types.size())});
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
  for (const char* name : {"fused computation", "fused all_reduce", "fused reduce_scatter", "fused all_gather",
                           "fused send", "overlap, product and sum", "overlap, loop and sum", "overlap, sum and send",
                           "overlap, send", "overlap, others"})
    cells_[kSections][name] = {};
  for (int ranks = 1; ranks <= 8; ++ranks) cells_[kRanks][std::to_string(ranks)] = {};
  for (int groups = 1; groups <= 3; ++groups) cells_[kGroups][std::to_string(groups)] = {};
  for (int root = 0; root < 8; ++root) cells_[kRoots][root_name(root)] = {};
  for (const char* name : kSizeNames) cells_[kSizes][name] = {};
  for (size_t types = 1; types <= 3; ++types) cells_[kDeclared][types_name(types)] = {};
}

void ProofTable::count(const RandomProgram& random, const Program& scheduled, const std::vector<Transformation>& log,
                       bool executed) {
  const Program& original = random.program;
  Cells cells;
  collect_dimensions(random, scheduled, cells);
  for (const Program* program : {&original, &scheduled})
    for (const Statement& statement : program->statements()) {
      collect(statement.expression, cells);
      const TensorType& type = program->type(statement.name);
      cells.insert({kDistributions, std::string(axonn::to_string(type.distribution.placement))});
      cells.insert({kTypes, std::string(axonn::to_string(type.element))});
    }
  for (const Transformation& transformation : log) cells.insert({kTransformations, name_of(transformation)});
  for (const Section& section : scheduled.sections()) cells.insert({kSections, section_name(scheduled, section)});
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

}  // namespace axonn::coconet::proofs
