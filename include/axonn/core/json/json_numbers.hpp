#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace axonn {

using NamedNumbers = std::vector<std::pair<std::string, double>>;

// The numbers of a JSON object with their keys, in its order: {"a":1,"b":{"c":2}} has "a" and
// "b.c". null is not a number (NaN), as a file of metrics has it for what is not finite. Texts,
// truth values and lists are left out. nullopt: `text` is no JSON object, or nests too deep for one
// of ours.
std::optional<NamedNumbers> json_numbers(std::string_view text);

}  // namespace axonn
