#include "coconet/language/words.hpp"

#include <algorithm>

#include "axonn/coconet/language/operation.hpp"

namespace axonn::coconet {

bool is_word(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || name.size() > 100 || !letter(name.front()) || name.back() == '.') return false;
  return std::ranges::all_of(name, [&](char c) { return letter(c) || c == '.' || (c >= '0' && c <= '9'); });
}

bool is_reserved(std::string_view name) {
  const auto named = [&](const OperationInfo& row) { return row.name == name; };
  return name == "on" || name == "GroupRank" || std::ranges::count(kLineWords, name) > 0 ||
         std::ranges::any_of(operations(), named);
}

}  // namespace axonn::coconet
