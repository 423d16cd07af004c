#include "axonn/config/option_table.hpp"

#include <algorithm>
#include <iterator>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {

void OptionTable::add_choice(std::string_view section, std::string_view key, std::string& field, Strings allowed, std::string_view help) {
  add_field(section, key, Field(&field), help, "", std::move(allowed));
}

void OptionTable::add_field(std::string_view section, std::string_view key, Field field, std::string_view help, std::string_view unit,
                            Strings allowed) {
  for (const Option& option : options_)
    AXONN_ASSERT(option.key != key, "key '", key, "' is in [", option.section, "] and again in [", section, "]");
  auto place = options_.end();
  while (place != options_.begin() && std::prev(place)->section != section) --place;
  if (place == options_.begin()) place = options_.end();
  options_.insert(place,
                  {std::string(section), std::string(key), std::string(help), std::string(unit), std::move(field), std::move(allowed)});
}

const OptionTable::Option& OptionTable::find(std::string_view key) const {
  const auto found = std::ranges::find(options_, key, &Option::key);
  AXONN_ASSERT(found != options_.end(), "no option '", key, "'");
  return *found;
}

OptionTable::Source OptionTable::source(std::string_view key) const { return find(key).source; }

void OptionTable::check_allowed(const Option& option, std::string_view value, std::string_view place) const {
  if (option.allowed.empty() || std::ranges::find(option.allowed, value) != option.allowed.end()) return;
  std::string names;
  for (const std::string& name : option.allowed) names += (names.empty() ? "" : ", ") + name;
  throw UserError("train.options",
                  detail::concatenate(place, " must be one of ", names, ", got '", value, "'", did_you_mean(value, option.allowed)));
}

}  // namespace axonn
