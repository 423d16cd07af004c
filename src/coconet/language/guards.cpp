#include "axonn/coconet/language/guards.hpp"

#include "axonn/core/error.hpp"

namespace axonn::coconet {

void Guards::check(bool holds, const char* where, const Rule& rule, std::string_view place,
                   std::string_view got) const {
  if (rule.name == without) return;
  AXONN_CHECK(holds, where, place, ": ", rule.needs, got.empty() ? "" : ", got ", got, " (rule ", rule.name, ")");
}

}  // namespace axonn::coconet
