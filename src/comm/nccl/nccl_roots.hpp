#pragma once

#include <algorithm>
#include <vector>

namespace axonn {

// The members of a group of `size` that start one of NCCL's communicators, each for at most `most`
// of them: the first ones of blocks that NCCL, too, makes of nearly equal sizes, the larger first.
inline std::vector<int> nccl_roots(int size, int most) {
  const int blocks = (size - 1) / most + 1;
  std::vector<int> roots;
  for (int i = 0; i < blocks; ++i) roots.push_back(i * (size / blocks) + std::min(i, size % blocks));
  return roots;
}

}  // namespace axonn
