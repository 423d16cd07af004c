#include "comm/collectives/collective_plan.hpp"

#include <cstring>

namespace axonn {

void CollectivePlan::place_own_part(int rank) const {
  layout.for_each_range(rank, 0, layout.count(rank), [&](int64_t place, int64_t, int64_t count) {
    if (in(place) != out(place)) std::memcpy(out(place), in(place), bytes(count));
  });
}

}  // namespace axonn
