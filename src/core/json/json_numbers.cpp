#include "axonn/core/json/json_numbers.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "axonn/core/json/json_depth.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

void collect(const Json& object, const std::string& prefix, NamedNumbers& numbers) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) collect(value, prefix + key + ".", numbers);
    if (value.is_number()) numbers.emplace_back(prefix + key, value.get<double>());
    if (value.is_null()) numbers.emplace_back(prefix + key, std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

std::optional<NamedNumbers> json_numbers(std::string_view text) {
  if (!is_shallow_json(text)) return std::nullopt;
  const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  NamedNumbers numbers;
  collect(object, "", numbers);
  return numbers;
}

}  // namespace axonn
