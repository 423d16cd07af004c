#include "axonn/coconet/plan/run_settings.hpp"

#include <algorithm>
#include <charconv>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

template <typename Settings, typename Visit>
void for_each_setting(Settings& settings, Visit visit) {
  visit(std::string_view("threads="), settings.threads);
  visit(std::string_view("segment="), settings.segment_bytes);
  visit(std::string_view("rows="), settings.part_rows);
}

}  // namespace

std::string to_string(const RunSettings& settings) {
  std::string text;
  for_each_setting(settings, [&](std::string_view name, auto value) {
    if (value != 0) text.append(text.empty() ? "" : " ").append(name).append(std::to_string(value));
  });
  return text;
}

RunSettings parse_run_settings(std::string_view text) {
  RunSettings settings;
  std::string_view left = text;
  bool valid = true;
  for_each_setting(settings, [&](std::string_view name, auto& value) {
    if (!left.starts_with(name)) return;
    const size_t end = std::min(left.find(' '), left.size());
    const std::string_view number = left.substr(name.size(), end - name.size());
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    valid = valid && parsed.ec == std::errc() && parsed.ptr == number.data() + number.size() && value > 0;
    left.remove_prefix(std::min(end + 1, left.size()));
  });
  AXONN_CHECK(valid && left.empty(), "coconet.settings", "'", text,
              "' must be settings of a run, such as threads=2 segment=32768 rows=128, in this order, each positive");
  return settings;
}

}  // namespace axonn::coconet
