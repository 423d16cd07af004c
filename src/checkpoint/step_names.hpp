#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace axonn {

// Names of the directories of steps. `.partial`: being written. `.old`: being replaced.
std::string step_name(int64_t step);  // "step-000500"
struct StepName {
  int64_t step = 0;
  std::string suffix;  // "", ".partial", ".old"
};
std::optional<StepName> parse_step_name(const std::string& name);

}  // namespace axonn
