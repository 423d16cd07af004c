#include "config/toml_section.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/text.hpp"
#include "config/toml_letters.hpp"

namespace axonn {

std::string read_toml_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), "config.toml", "cannot read ", path.string(), ": ",
              why_not_read(path.native()));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TomlFile read_toml_file(const std::filesystem::path& path) { return parse_toml(read_toml_text(path), path.string()); }

TomlFile parse_toml(std::string_view text, std::string_view name) {
  check_toml_letters(text, name);
  try {
    return {toml::parse(text, name), std::string(name)};
  } catch (const toml::parse_error& error) {
    throw UserError("config.toml",
                    detail::concatenate(name, ":", error.source().begin.line, ": ", error.description()));
  }
}

std::string place_of(const TomlFile& file, const toml::node& node) {
  return detail::concatenate(file.name, ":", node.source().begin.line);
}

TomlSection::TomlSection(const TomlFile& file, const toml::table& table, std::string name)
    : file_(file), table_(table), name_(std::move(name)) {}

const toml::node* TomlSection::find(std::string_view key) {
  asked_.emplace_back(key);
  return table_.get(key);
}

std::string TomlSection::place(std::string_view key, const toml::node& node) const {
  return detail::concatenate(place_of(file_, node), ": '", key, "' in ", name_);
}

void TomlSection::missing(std::string_view key) const {
  std::string meant;  // a key that was not read yet and is spelt much like this one
  for (const auto& [other, node] : table_)
    if (std::ranges::find(asked_, other.str()) == asked_.end() && !did_you_mean(other.str(), std::array{key}).empty())
      meant = detail::concatenate("; did you mean it by '", other.str(), "'?");
  throw UserError("config.toml",
                  detail::concatenate(place_of(file_, table_), ": '", key, "' is missing in ", name_, meant));
}

double TomlSection::number(std::string_view key, double least, bool above) {
  if (!has(key)) missing(key);
  return number_or(key, 0, least, above);
}

double TomlSection::number_or(std::string_view key, double fallback, double least, bool above) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto value = node->value<double>();
  AXONN_CHECK(node->is_number() && value && std::isfinite(*value), "config.toml", place(key, *node),
              " must be a number");
  AXONN_CHECK(above ? *value > least : *value >= least, "config.toml", place(key, *node), " must be ",
              above ? "greater than " : "at least ", least, ", got ", *value);
  return *value;
}

int64_t TomlSection::integer(std::string_view key, int64_t least, int64_t most) {
  const auto value = find_integer(key, least, most);
  if (!value) missing(key);
  return *value;
}

std::optional<int64_t> TomlSection::find_integer(std::string_view key, int64_t least, int64_t most) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  AXONN_CHECK(value != nullptr, "config.toml", place(key, *node), " must be a whole number");
  AXONN_CHECK(value->get() >= least && value->get() <= most, "config.toml", place(key, *node), " must be from ", least,
              " to ", most, ", got ", value->get());
  return value->get();
}

std::optional<std::string> TomlSection::find_text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) return std::nullopt;
  AXONN_CHECK(node->is_string(), "config.toml", place(key, *node), " must be a string");
  return node->as_string()->get();
}

void TomlSection::refuse_unknown_keys(const std::vector<std::string>& also) const {
  std::vector<std::string> known = asked_;
  known.insert(known.end(), also.begin(), also.end());
  for (const auto& [key, node] : table_)
    AXONN_CHECK(std::ranges::find(known, key.str()) != known.end(), "config.toml", place_of(file_, node),
                ": unknown key '", key.str(), "' in ", name_, did_you_mean(key.str(), known));
}

}  // namespace axonn
