#include "coconet/proofs/all_rules.hpp"

#include <algorithm>
#include <string>

#include "axonn/coconet/transform/transformation.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/typing.hpp"

namespace axonn::coconet::proofs {
namespace {

struct Unshown {
  std::string_view rule, reason;
};

constexpr Unshown kUnshown[] = {
    {"element-types", "types decide how results are rounded, and the oracle does not round"},
    {"booleans", "to the oracle a comparison is 0 or 1, a number like others"},
    {"probability", "the original breaks it too, with the same numbers"},
    {"reduced-dims", "the original breaks it too, with the same numbers"},
    {"norm", "the original breaks it too, and both have one cut"},
    {"declarations", "the original breaks it too, with the same numbers"},
    {"defined", "a value that is not there has no type: Program refuses it without the rule, too"},
    {"outputs", "without it there is no result to compare"},
    {"fuse-rooted", "the results stay: no executor has a rank that computes block by block what others wait for"},
    {"split-replicated", "the rules of types and updates refuse what it refuses, or the results stay"},
    {"sections", "the new program keeps the rules of sections, or is refused by them"},
    {"reorder-kinds", "no collective takes the replicated values that are reordered"},
};

}  // namespace

std::vector<std::string_view> all_rules() {
  std::vector<std::string_view> names;
  for (const auto& table : {typing_rules(), program_rules(), section_rules(), transformation_rules()})
    for (const Rule& rule : table) names.push_back(rule.name);
  return names;
}

std::string_view why_unshown(std::string_view rule) {
  const std::vector<std::string_view> names = all_rules();
  const std::vector<std::string> known(names.begin(), names.end());
  AXONN_CHECK(std::ranges::count(names, rule) > 0, "coconet.proofs", "'", rule,
              "' must be the name of a rule, or 'each'", did_you_mean(rule, std::span<const std::string>(known)));
  const auto found = std::ranges::find(kUnshown, rule, &Unshown::rule);
  return found == std::end(kUnshown) ? "" : found->reason;
}

}  // namespace axonn::coconet::proofs
