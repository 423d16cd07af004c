#pragma once

#include <functional>
#include <vector>

#include <axonn/core/median.hpp>

namespace axonn::bench {

// Medians of the seconds of two calls, and of the ratios of the pairs.
struct InTurns {
  double theirs, ours, ratio;  // theirs / ours
};

// Runs two calls in turn, first once without measurement. `seconds_of` runs one and measures it.
template <typename SecondsOf>
InTurns in_turns(int repetitions, const SecondsOf& seconds_of, const std::function<void()>& theirs,
                 const std::function<void()>& ours) {
  std::vector<double> a, b, ratios;
  for (int i = -1; i < repetitions; ++i) {
    const double first = seconds_of(theirs), second = seconds_of(ours);
    if (i < 0) continue;  // warms up
    a.push_back(first);
    b.push_back(second);
    ratios.push_back(first / second);
  }
  return {.theirs = median(a), .ours = median(b), .ratio = median(ratios)};
}

}  // namespace axonn::bench
