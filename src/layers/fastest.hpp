#pragma once

#include <algorithm>
#include <chrono>

namespace axonn {

// Seconds of the fastest of several runs, after one that is not counted: at least 3, and more of
// short ones.
double fastest(const auto& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9, spent = 0;
  work();
  for (int i = 0; i < 3 || (spent < 0.02 && i < 50); ++i) {
    const auto start = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

}  // namespace axonn
