#include "checkpoint/step_names.hpp"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace axonn {

std::string step_name(int64_t step) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "step-%06lld", static_cast<long long>(step));
  return buffer;
}

std::optional<StepName> parse_step_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  StepName parsed;
  const char* begin = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), parsed.step);
  parsed.suffix = std::string(end, name.data() + name.size());
  const bool known = parsed.suffix.empty() || parsed.suffix == ".partial" || parsed.suffix == ".old";
  if (error != std::errc() || parsed.step < 0 || !known) return std::nullopt;
  return parsed;
}

}  // namespace axonn
