#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/oracle/element_text.hpp"

namespace axonn::coconet {
namespace {

bool agree(double a, double b, double tolerance) {
  if (is_missing(a) || is_missing(b)) return false;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
}

std::string extents_text(const Extents& extents) {
  std::string text;
  for (const int64_t extent : extents) text.append(text.empty() ? "" : ", ").append(std::to_string(extent));
  return "[" + text + "]";
}

std::string element_on_rank(const OracleValue& value, size_t part, size_t element) {
  const int rank = value.givers.empty() ? static_cast<int>(part) : value.givers[element];
  return element_text(value.parts[part][element]) + " on " + (rank < 0 ? "no rank" : "rank " + std::to_string(rank));
}

std::string difference_of(const OracleValue& a, const OracleValue& b, double tolerance) {
  for (const OracleValue* value : {&a, &b})
    if (!value->fault.empty()) return value->fault;
  const bool local = a.distribution.is(Placement::local);
  if (local != b.distribution.is(Placement::local) || a.parts.size() != b.parts.size() || a.extents != b.extents)
    return " is " + a.distribution.to_string() + " " + extents_text(a.extents) + " and " + b.distribution.to_string() +
           " " + extents_text(b.extents);
  for (size_t part = 0; part < a.parts.size(); ++part)
    for (size_t i = 0; i < a.parts[part].size(); ++i)
      if (!agree(a.parts[part][i], b.parts[part][i], tolerance))
        return index_text(static_cast<int64_t>(i), a.extents) + " is " + element_on_rank(a, part, i) + " and " +
               element_on_rank(b, part, i);
  return "";
}

using OracleValues = std::map<std::string, OracleValue, std::less<>>;

std::string difference_of(const std::string& kind, const OracleValues& a, const OracleValues& b, double tolerance) {
  for (const auto& [name, value] : b)
    if (!a.contains(name)) return kind + name + " is only in the second";
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return kind + name + " is only in the first";
    const std::string found = difference_of(value, other->second, tolerance);
    if (!found.empty()) return kind + name + found;
  }
  return "";
}

}  // namespace

std::string element_text(double element) {
  if (is_missing(element)) return "missing";
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), element).ptr};
}

std::string index_text(int64_t element, const Extents& extents) {
  std::string text;
  for (size_t dim = extents.size(); dim-- > 0; element /= extents[dim])
    text = std::to_string(element % extents[dim]).append(text.empty() ? "" : ", ").append(text);
  return extents.empty() ? "" : "[" + text + "]";
}

std::string difference(const OracleResult& a, const OracleResult& b, double tolerance) {
  const std::string found = difference_of("output ", a.outputs, b.outputs, tolerance);
  return found.empty() ? difference_of("state ", a.states, b.states, tolerance) : found;
}

}  // namespace axonn::coconet
