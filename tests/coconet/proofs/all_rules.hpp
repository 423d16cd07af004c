#pragma once

#include <string_view>
#include <vector>

namespace axonn::coconet::proofs {

// The names of the rules of types, programs, sections and transformations.
std::vector<std::string_view> all_rules();

// Why no random program shows that a rule is needed. "": one must be found. UserError if there is
// no such rule.
std::string_view why_unshown(std::string_view rule);

}  // namespace axonn::coconet::proofs
