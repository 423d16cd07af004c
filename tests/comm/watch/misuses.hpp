#pragma once

#include <functional>
#include <string>
#include <vector>

#include "axonn/comm/environment.hpp"

namespace axonn {

// Ranks that call different things, so that the job can never go on. Each ends at once, long before
// the time-out, with an error that has these texts.
struct Misuse {
  std::string name;
  int ranks = 2;
  std::function<void(Environment&)> run;
  std::vector<std::string> texts;
};
const std::vector<Misuse>& misuses();

}  // namespace axonn
