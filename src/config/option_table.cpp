#include "axonn/config/option_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "axonn/core/error.hpp"
#include "config/option_field.hpp"

namespace axonn {

OptionTable::OptionTable(Use use) : use_(use) {}
OptionTable::~OptionTable() = default;

void OptionTable::add(std::string_view section, std::string_view key, int64_t& field, std::string_view help,
                      Whole whole) {
  add_field(section, key, make_field(field, whole), help);
}
void OptionTable::add(std::string_view section, std::string_view key, int& field, std::string_view help, Whole whole) {
  add_field(section, key, make_field(field, whole), help);
}
void OptionTable::add(std::string_view section, std::string_view key, double& field, std::string_view help) {
  add_field(section, key, make_field(field), help);
}
void OptionTable::add(std::string_view section, std::string_view key, bool& field, std::string_view help) {
  add_field(section, key, make_field(field), help);
}
void OptionTable::add(std::string_view section, std::string_view key, std::string& field, std::string_view help) {
  add_field(section, key, make_field(field), help);
}
void OptionTable::add(std::string_view section, std::string_view key, Strings& field, std::string_view help) {
  add_field(section, key, make_field(field), help);
}
void OptionTable::add(std::string_view section, std::string_view key, Integers& field, std::string_view help,
                      Whole whole) {
  add_field(section, key, make_field(field, whole), help);
}
void OptionTable::add_text(std::string_view section, std::string_view key, TextValue value, std::string_view help) {
  add_field(section, key, make_field(std::move(value)), help);
}
void OptionTable::add_texts(std::string_view section, std::string_view key, TextValues values, std::string_view help) {
  add_field(section, key, make_field(std::move(values)), help);
}

void OptionTable::add_field(std::string_view section, std::string_view key, std::unique_ptr<OptionField> field,
                            std::string_view help) {
  for (const Option& option : options_)
    AXONN_ASSERT(option.key != key || use_ == Use::flags, "key '", key, "' is in [", option.section, "] and again in [",
                 section, "]");
  auto place = options_.end();
  while (place != options_.begin() && std::prev(place)->section != section) --place;
  if (place == options_.begin()) place = options_.end();
  options_.insert(place, {std::string(section), std::string(key), std::string(help), std::move(field)});
}

void OptionTable::add_former(std::string_view key, std::string_view former) {
  const auto taken = std::ranges::any_of(options_, [&](const Option& option) { return option.is_called(former); });
  AXONN_ASSERT(!taken, "key '", former, "' is in use");
  std::ranges::find(options_, find(key).key, &Option::key)->former = former;
}

void OptionTable::add_absent(std::string_view key, std::string_view value) {
  std::ranges::find(options_, find(key).key, &Option::key)->absent = value;
}

const OptionTable::Option& OptionTable::find(std::string_view key) const {
  const auto found = std::ranges::find(options_, key, &Option::key);
  AXONN_ASSERT(found != options_.end(), "no option '", key, "'");
  return *found;
}

OptionTable::Source OptionTable::source(std::string_view key) const { return find(key).source; }

std::vector<std::string> OptionTable::keys(std::string_view section) const {
  std::vector<std::string> keys;
  for (const Option& option : options_)
    if (section.empty() || option.section == section) keys.push_back(option.key);
  return keys;
}

}  // namespace axonn
