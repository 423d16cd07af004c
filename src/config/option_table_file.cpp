// The TOML and JSON half of OptionTable. A file is read into JSON values that remember their lines, so both formats share one set of rules.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <type_traits>

#include <nlohmann/json.hpp>
#include <toml++/toml.h>

#include "axonn/config/option_table.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "config/toml_letters.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
using Strings = OptionTable::Strings;
using Integers = OptionTable::Integers;

std::string kind_of(const Json& value) {
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  if (value.is_number_integer()) return "a whole number";
  if (value.is_number()) return "a number with a fraction";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a section";
  return "a value of another kind";
}

struct NeededKind {
  std::string operator()(const int64_t*) const { return "a whole number"; }
  std::string operator()(const int*) const { return "a whole number"; }
  std::string operator()(const double*) const { return "a number"; }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::string*) const { return "a string"; }
  std::string operator()(const Strings*) const { return "a string or a list of strings"; }
  std::string operator()(const Integers*) const { return "a whole number or a list of whole numbers"; }
  std::string operator()(const OptionTable::Enumeration&) const { return "a string"; }
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      out += std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The shortest text that reads back as the same double, with a point or an exponent so that it stays one.
std::string number_text(double value) {
  char buffer[40];
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  const std::string text = buffer;
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

struct TomlText {
  std::string operator()(const double* value) const { return number_text(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::string* value) const { return in_quotes(*value); }
  std::string operator()(const OptionTable::Enumeration& value) const { return in_quotes(value.get()); }
  std::string operator()(const Strings* value) const {
    std::string list;
    for (const std::string& word : *value) list += (list.empty() ? "" : ", ") + in_quotes(word);
    return "[" + list + "]";
  }
  std::string operator()(const Integers* value) const {
    std::string list;
    for (const int64_t number : *value) list += (list.empty() ? "" : ", ") + std::to_string(number);
    return "[" + list + "]";
  }
  template <typename Integer>
  std::string operator()(const Integer* value) const {
    return std::to_string(*value);
  }
};

struct JsonValue {
  Json operator()(const OptionTable::Enumeration& value) const { return value.get(); }
  template <typename T>
  Json operator()(const T* value) const {
    return *value;
  }
};

// A value of the file and where it stands: "configs/my.toml:12".
struct Placed {
  Json value;
  std::string place;
};

Json json_of(const toml::node& node) {
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* text = node.as_string()) return text->get();
  if (node.is_table()) return Json::object();
  if (!node.is_array()) return nullptr;
  Json list = Json::array();
  for (const toml::node& item : *node.as_array()) list.push_back(json_of(item));
  return list;
}

std::string flag_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string words;
  for (const Json& item : value) words += (words.empty() ? "" : " ") + flag_text(item);
  return words;
}

std::string place_of(std::string_view name, const toml::source_region& source) { return detail::concatenate(name, ":", source.begin.line); }

}  // namespace

// Sets the options of one table from one file.
struct OptionReader {
  using Option = OptionTable::Option;
  OptionTable& table;
  OptionTable::Source source;

  void check_section(std::string_view section, const Placed& placed) const {
    Strings sections;
    for (const Option& option : table.options_)
      if (sections.empty() || sections.back() != option.section) sections.push_back(option.section);
    if (!placed.value.is_object()) {
      const auto known = std::ranges::find(table.options_, section, &Option::key);
      const std::string advice = known == table.options_.end() ? "" : "; it belongs in [" + known->section + "]";
      throw UserError("train.options", detail::concatenate(placed.place, ": key '", section, "' stands outside of a section", advice));
    }
    AXONN_CHECK(std::ranges::find(sections, section) != sections.end(), "train.options", placed.place, ": unknown section [", section, "]",
                did_you_mean(section, sections));
  }

  void set(std::string_view section, std::string_view key, const Placed& placed) const {
    const auto named = std::ranges::find(table.options_, key, &Option::key);
    if (named == table.options_.end()) {
      Strings keys;
      for (const Option& option : table.options_)
        if (option.section == section) keys.push_back(option.key);
      throw UserError("train.options",
                      detail::concatenate(placed.place, ": unknown key '", key, "' in [", section, "]", did_you_mean(key, keys)));
    }
    AXONN_CHECK(named->section == section, "train.options", placed.place, ": unknown key '", key, "' in [", section, "]; it belongs in [",
                named->section, "]");
    const std::string subject = detail::concatenate(placed.place, ": '", key, "' in [", section, "]");
    const bool wins = source >= named->source;
    const bool fits = std::visit([&](auto& field) { return assign(field, *named, placed.value, subject, wins); }, named->field);
    AXONN_CHECK(fits, "train.options", subject, " is ", kind_of(placed.value), " (", placed.value.dump(), "), it must be ",
                std::visit(NeededKind(), named->field));
    if (wins) named->source = source;
  }

 private:
  // False when the value is of another kind. A value that does not win is checked all the same.
  template <typename Field>
  bool assign(Field& field, const Option& option, const Json& value, const std::string& subject, bool wins) const {
    if constexpr (std::is_same_v<Field, bool*>) {
      if (!value.is_boolean()) return false;
      if (wins) *field = value.get<bool>();
    } else if constexpr (std::is_same_v<Field, double*>) {
      if (!value.is_number()) return false;
      const auto number = value.get<double>();
      AXONN_CHECK(std::isfinite(number), "train.options", subject, " must be a finite number");
      if (wins) *field = number;
    } else if constexpr (std::is_same_v<Field, int64_t*> || std::is_same_v<Field, int*>) {
      if (!value.is_number_integer()) return false;
      using Integer = std::remove_pointer_t<Field>;
      AXONN_CHECK(in_range<Integer>(value), "train.options", subject, " is out of range: ", value.dump());
      if (wins) *field = value.get<Integer>();
    } else if constexpr (std::is_same_v<Field, Strings*>) {
      const auto is_text = [](const Json& item) { return item.is_string(); };
      if (!value.is_string() && !(value.is_array() && std::ranges::all_of(value, is_text))) return false;
      if (wins) *field = value.is_string() ? Strings{value.get<std::string>()} : value.get<Strings>();
    } else if constexpr (std::is_same_v<Field, Integers*>) {
      const auto fits = [](const Json& item) { return item.is_number_integer() && in_range<int64_t>(item); };
      if (!fits(value) && !(value.is_array() && std::ranges::all_of(value, fits))) return false;
      if (wins) *field = value.is_array() ? value.get<Integers>() : Integers{value.get<int64_t>()};
    } else {
      if (!value.is_string()) return false;
      const auto text = value.get<std::string>();
      table.check_allowed(option, text, subject);
      if (wins) store(field, text);
    }
    return true;
  }

  static void store(std::string* field, const std::string& text) { *field = text; }
  static void store(OptionTable::Enumeration& field, const std::string& text) { field.set(text); }

  template <typename Integer>
  static bool in_range(const Json& value) {
    if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    return value.get<int64_t>() >= std::numeric_limits<Integer>::min() && value.get<int64_t>() <= std::numeric_limits<Integer>::max();
  }
};

void OptionTable::read_toml_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), "train.options", "cannot read the configuration file ", path.string());
  read_toml(std::string(std::istreambuf_iterator<char>(in), {}), path.string());
}

void OptionTable::read_toml(std::string_view text, std::string_view name) {
  check_toml_letters(text, name);
  toml::table file;
  try {
    file = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw UserError("train.options", detail::concatenate(place_of(name, error.source()), ": ", error.description()));
  }
  const OptionReader reader{*this, Source::file};
  for (const auto& [section, node] : file) {
    reader.check_section(section.str(), {json_of(node), place_of(name, node.source())});
    for (const auto& [key, value] : *node.as_table()) {
      const std::string place = place_of(name, value.source());
      reader.set(section.str(), key.str(), {json_of(value), place});
    }
  }
}

void OptionTable::read_json(std::string_view text, std::string_view name) {
  const Json file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(file.is_object(), "train.options", name, " is not a JSON object");
  const OptionReader reader{*this, Source::checkpoint};
  for (const auto& [section, keys] : file.items()) {
    reader.check_section(section, {keys, std::string(name)});
    for (const auto& [key, value] : keys.items()) reader.set(section, key, {value, std::string(name)});
  }
}

std::string OptionTable::to_toml() const {
  std::string text;
  const std::string* section = nullptr;
  for (const Option& option : options_) {
    if (section == nullptr || *section != option.section) text += (section == nullptr ? "[" : "\n[") + option.section + "]\n";
    section = &option.section;
    text += option.key + " = " + std::visit(TomlText(), option.field) + "\n";
  }
  return text;
}

std::string OptionTable::to_json() const {
  Json file = Json::object();
  for (const Option& option : options_) file[option.section][option.key] = std::visit(JsonValue(), option.field);
  return file.dump(2);
}

std::optional<OptionTable::Difference> OptionTable::first_difference(std::string_view json, std::span<const std::string_view> keys) const {
  const Json file = Json::parse(json);
  for (const std::string_view key : keys) {
    const Option& option = find(key);
    if (!file.contains(option.section) || !file[option.section].contains(option.key)) continue;  // written before there was this key
    const Json mine = std::visit(JsonValue(), option.field), &theirs = file[option.section][option.key];
    if (mine != theirs) return Difference{option.key, flag_text(mine), flag_text(theirs)};
  }
  return std::nullopt;
}

}  // namespace axonn
