#include "axonn/grid/divisors.hpp"

#include <algorithm>

namespace axonn {

std::vector<int> divisors(int64_t number) {
  std::vector<int> found;
  for (int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    found.push_back(static_cast<int>(d));
    if (d * d != number) found.push_back(static_cast<int>(number / d));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace axonn
