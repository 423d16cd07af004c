#pragma once

#include <string>
#include <string_view>

namespace axonn::coconet {

// One condition of typing or of a transformation: what it asks for, and where it comes from. Each
// has a test of its message, and a program whose result is wrong without it.
struct Rule {
  std::string_view name;    // "all-reduce-local"
  std::string_view needs;   // "all_reduce needs a local tensor"
  std::string_view source;  // "CoCoNet, section 2.2", or why we ask for it
};

// Checks rules. `without` leaves one of them out: proofs show so that the rule is needed.
struct Guards {
  std::string_view without = {};

  // UserError "PLACE: NEEDS, got GOT (rule NAME)" unless `holds`.
  void check(bool holds, const char* where, const Rule& rule, std::string_view place, std::string_view got) const;
};

}  // namespace axonn::coconet
