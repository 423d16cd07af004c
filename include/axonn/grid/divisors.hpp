#pragma once

#include <cstdint>
#include <vector>

namespace axonn {

// Ascending; number: from 1 to INT_MAX.
std::vector<int> divisors(int64_t number);

}  // namespace axonn
