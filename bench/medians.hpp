#pragma once

#include <functional>
#include <vector>

#include "axonn/comm/environment.hpp"

namespace axonn::bench {

// Runs the calls in turn, all ranks together, first once without measurement. Returns for each call
// the median over the repetitions of the slowest rank's seconds. Every rank calls it.
std::vector<double> medians(Environment& environment, int repetitions, const std::vector<std::function<void()>>& calls);

}  // namespace axonn::bench
