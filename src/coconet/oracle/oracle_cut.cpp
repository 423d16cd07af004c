#include "axonn/coconet/oracle/oracle_cut.hpp"

namespace axonn::coconet {

int Cut::owner(int64_t index, int64_t extent, int ranks) const {
  if (block > 0) return static_cast<int>((index + offset) / block % ranks);
  int rank = 0;
  while (index >= extent * (rank + 1) / ranks) ++rank;
  return rank;
}

}  // namespace axonn::coconet
