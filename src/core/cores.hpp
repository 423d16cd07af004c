#pragma once

#include <algorithm>
#include <thread>

#include <sched.h>
#include <unistd.h>

namespace axonn {

// The cores that this process may use.
inline int usable_cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0
             ? std::max(1, CPU_COUNT(&allowed))
             : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The cores of one of the ranks of a host: its share of all, at most those that it may use. Those
// that a launcher has bound it to are its own, and are not divided once more.
inline int cores_of_rank(int local_ranks, int usable = usable_cores(),
                         int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))) {
  return std::max(1, std::min(usable, online / local_ranks));
}

}  // namespace axonn
