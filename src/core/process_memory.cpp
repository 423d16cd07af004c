#include "axonn/core/process_memory.hpp"

#include <malloc.h>

#include <fstream>
#include <limits>
#include <string>

namespace axonn {

void keep_freed_memory() {
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // maximum in glibc
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 * kMiB);
}

int64_t free_host_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  int64_t kilobytes = 0;
  while (in >> word)
    if (word == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
  return std::numeric_limits<int64_t>::max();
}

}  // namespace axonn
