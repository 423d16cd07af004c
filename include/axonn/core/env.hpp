#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

// Every environment variable that axonn reads, in one table (printed by `gpt --help-env`).
namespace axonn::env {

struct Variable {
  std::string_view name;
  std::string_view values;
  std::string_view fallback;  // the default, in words
  std::string_view meaning;
};

std::span<const Variable> table();

// The value, or nothing when unset or empty. `name` must be in the table.
std::optional<std::string> get(std::string_view name);
std::optional<int> get_int(std::string_view name);  // throws UserError when it is not a whole number
bool is_on(std::string_view name);                  // whether it is a whole number other than 0; throws as above

}  // namespace axonn::env
