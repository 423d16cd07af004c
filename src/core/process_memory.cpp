#include "axonn/core/process_memory.hpp"

#include <malloc.h>

namespace axonn {

void keep_freed_memory() {
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // maximum in glibc
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 * kMiB);
}

}  // namespace axonn
