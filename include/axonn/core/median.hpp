#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace axonn {

// The middle one in order of size, the upper one of two. There must be a value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace axonn
