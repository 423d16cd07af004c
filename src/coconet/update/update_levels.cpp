#include "coconet/update/update_levels.hpp"

#include <algorithm>
#include <map>

namespace axonn::coconet {
namespace {

bool has_elements(const TensorType& type) { return type.shape.size() == 2 && !type.shape[1].is_one(); }

}  // namespace

bool touches_elements(const Program& program, const Statement& statement) {
  const Expression& root = statement.expression;
  if (root.is(OperationKind::reduction)) return has_elements(program.type(root.operands()[0]));
  return has_elements(program.type(statement.name));
}

std::vector<std::vector<std::string>> update_levels(const Program& program, bool with_collectives) {
  std::vector<std::vector<std::string>> levels;
  std::map<std::string, size_t> ready;  // the first pass that may read a value
  std::map<std::string, bool> gathered;
  for (const Statement& statement : program.statements()) {
    const Expression& root = statement.expression;
    size_t level = 0;
    bool stores_gathered = false;
    root.for_each_reference([&](const std::string& name) {
      if (const auto found = ready.find(name); found != ready.end()) level = std::max(level, found->second);
      stores_gathered |= gathered[name];
    });
    ready[statement.name] = level + (root.is(OperationKind::reduction) ? 1 : 0);
    if (!touches_elements(program, statement)) continue;
    const bool collective = root.is(OperationKind::collective);
    gathered[statement.name] = root.is(Operation::all_gather);
    if (!with_collectives && (collective || stores_gathered)) continue;
    if (root.is(Operation::all_reduce)) continue;
    if (levels.size() <= level) levels.resize(level + 1);
    levels[level].push_back(statement.name);
  }
  std::erase_if(levels, [](const auto& members) { return members.empty(); });
  return levels;
}

}  // namespace axonn::coconet
