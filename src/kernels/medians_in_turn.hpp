#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace axonn {

// Median seconds of each work, in turn, as in a program that does other work in between: after one
// turn that is not counted at least 3, and more of short ones.
inline std::vector<double> medians_in_turn(const std::vector<std::function<void()>>& works) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> seconds(works.size());
  double spent = 0;
  for (int turn = -1; turn < 3 || (spent < 0.02 * static_cast<double>(works.size()) && turn < 50); ++turn)
    for (size_t i = 0; i < works.size(); ++i) {
      const auto start = Clock::now();
      works[i]();
      if (turn < 0) continue;
      seconds[i].push_back(std::chrono::duration<double>(Clock::now() - start).count());
      spent += seconds[i].back();
    }
  std::vector<double> medians;
  for (std::vector<double>& of_one : seconds) {
    std::ranges::sort(of_one);
    medians.push_back(of_one[of_one.size() / 2]);
  }
  return medians;
}

}  // namespace axonn
