// The TOML and JSON half of OptionTable. A file is read into JSON values that remember their lines,
// so both formats share one set of rules.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include <nlohmann/json.hpp>
#include <toml++/toml.h>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/core/text.hpp"
#include "config/option_field.hpp"
#include "config/toml_letters.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
using Strings = OptionTable::Strings;

constexpr const char* kWhere = "config.options";

std::string kind_of(const Json& value) {
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  if (value.is_number_integer()) return "a whole number";
  if (value.is_number()) return "a number with a fraction";
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a section";
  return "a value of another kind";
}

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

// The shortest text that reads back as the same double. It has a point or an exponent, so that it
// stays a double.
std::string number_text(double value) {
  char buffer[40];
  for (int digits = 1; digits <= std::numeric_limits<double>::max_digits10; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  const std::string text = buffer;
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string toml_text(const Json& value) {
  if (value.is_string()) return in_quotes(value.get<std::string>());
  if (value.is_number_float()) return number_text(value.get<double>());
  if (!value.is_array()) return value.dump();
  return "[" + join(value, ", ", toml_text) + "]";
}

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

// A value from another table, written as in a flag.
std::string flag_text(const Json& value) {
  if (value.is_string()) return from_utf8(value.get<std::string>());
  return value.is_array() ? join(value, ",", flag_text) : value.dump();
}

std::string place_of(std::string_view name, const toml::source_region& source) {
  return detail::concatenate(name, ":", source.begin.line);
}

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
      const auto known =
          std::ranges::find_if(table.options_, [&](const Option& option) { return option.is_called(section); });
      const std::string advice = known == table.options_.end() ? "" : "; it belongs in [" + known->section + "]";
      throw UserError(kWhere,
                      detail::concatenate(placed.place, ": key '", section, "' stands outside of a section", advice));
    }
    AXONN_CHECK(std::ranges::find(sections, section) != sections.end(), kWhere, placed.place, ": unknown section [",
                section, "]", did_you_mean(section, sections));
  }

  void set(std::string_view section, std::string_view key, const Placed& placed) const {
    const auto named =
        std::ranges::find_if(table.options_, [&](const Option& option) { return option.is_called(key); });
    if (named == table.options_.end()) {
      Strings keys;
      for (const Option& option : table.options_)
        if (option.section == section) keys.push_back(option.key);
      throw UserError(kWhere, detail::concatenate(placed.place, ": unknown key '", key, "' in [", section, "]",
                                                  did_you_mean(key, keys)));
    }
    AXONN_CHECK(named->section == section, kWhere, placed.place, ": unknown key '", key, "' in [", section,
                "]; it belongs in [", named->section, "]");
    const std::string subject = detail::concatenate(placed.place, ": '", key, "' in [", section, "]");
    const bool wins = source >= named->source;
    const bool fits = named->field->read(placed.value, subject, wins);
    AXONN_CHECK(fits, kWhere, subject, " is ", kind_of(placed.value), " (", placed.value.dump(), "), it must be ",
                named->field->need());
    if (wins) named->source = source;
  }
};

void OptionTable::read_toml_file(const std::filesystem::path& path, const std::vector<std::string_view>& sections) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), kWhere, "cannot read the configuration file ",
              path.string(), ": ", why_not_read(path.native()));
  read_toml(std::string(std::istreambuf_iterator<char>(in), {}), path.string(), sections);
}

void OptionTable::read_toml(std::string_view text, std::string_view name,
                            const std::vector<std::string_view>& sections) {
  check_toml_letters(text, name);
  toml::table file;
  try {
    file = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw UserError(kWhere, detail::concatenate(place_of(name, error.source()), ": ", error.description()));
  }
  const OptionReader reader{*this, Source::file};
  for (const auto& [section, node] : file) {
    const auto wanted = [&](const std::string& part) {
      return sections.empty() || std::ranges::find(sections, part) != sections.end();
    };
    const std::string section_name(section.str());
    const auto some = [&](std::string_view part) { return part.starts_with(section_name + "."); };
    if (!wanted(section_name) && std::ranges::none_of(sections, some)) continue;
    reader.check_section(section.str(), {json_of(node), place_of(name, node.source())});
    for (const auto& [key, value] : *node.as_table()) {
      if (!wanted(section_name) && !wanted(section_name + "." + std::string(key.str()))) continue;
      const std::string place = place_of(name, value.source());
      reader.set(section.str(), key.str(), {json_of(value), place});
    }
  }
}

void OptionTable::read_json(std::string_view text, std::string_view name) {
  const Json file = is_shallow_json(text) ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
  AXONN_CHECK(file.is_object(), kWhere, name, " is not a JSON object");
  const OptionReader reader{*this, Source::checkpoint};
  for (const auto& [section, keys] : file.items()) {
    reader.check_section(section, {keys, std::string(name)});
    for (const auto& [key, value] : keys.items()) reader.set(section, key, {value, std::string(name)});
  }
  for (Option& option : options_) {
    if (option.absent.empty() || option.source > Source::checkpoint || !file.contains(option.section)) continue;
    if (file[option.section].contains(option.key)) continue;
    option.field->read({option.absent}, "--" + option.key);
    option.source = Source::checkpoint;
  }
}

std::string OptionTable::to_toml() const {
  std::string text;
  const std::string* section = nullptr;
  for (const Option& option : options_) {
    if (section == nullptr || *section != option.section)
      text += (section == nullptr ? "[" : "\n[") + option.section + "]\n";
    section = &option.section;
    text += option.key + " = " + toml_text(option.field->json()) + "\n";
  }
  return text;
}

std::string OptionTable::to_json() const {
  Json file = Json::object();
  for (const Option& option : options_) file[option.section][option.key] = option.field->json();
  return file.dump(2);
}

std::optional<OptionTable::Difference> OptionTable::first_difference(std::string_view json,
                                                                     std::span<const std::string> keys) const {
  const Json file = Json::parse(json);
  for (const std::string& key : keys) {
    const Option& option = find(key);
    if (!file.contains(option.section)) continue;
    const Json& section = file[option.section];
    const std::string& name = section.contains(option.key) ? option.key : option.former;
    if (!section.contains(name)) {  // written before this key existed
      if (!option.absent.empty() && option.field->text() != option.absent)
        return Difference{option.key, option.field->text(), option.absent};
      continue;
    }
    const Json& theirs = section[name];
    if (option.field->json() != theirs) return Difference{option.key, option.field->text(), flag_text(theirs)};
  }
  return std::nullopt;
}

}  // namespace axonn
