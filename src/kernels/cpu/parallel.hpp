#pragma once

#include <cstdint>

namespace axonn {

// Divides begin .. end among this process's threads, in one part per thread of at least `grain`;
// calls part(first, last) for each, and throws what one of them threw. Within such a part it runs
// on one thread. at::get_thread_num() is the part's number.
//
// at::parallel_for() divides in the same way, but it is a template, which runs on one thread if its
// file is compiled without OpenMP; and the OpenMP of clang would be a second one beside LibTorch's.
template <typename Part>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Part& part);

namespace detail {
using RunPart = void (*)(const void* part, int64_t first, int64_t last);
void run_in_parallel(int64_t begin, int64_t end, int64_t grain, RunPart run, const void* part);
}  // namespace detail

template <typename Part>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Part& part) {
  const auto run = [](const void* p, int64_t first, int64_t last) { (*static_cast<const Part*>(p))(first, last); };
  detail::run_in_parallel(begin, end, grain, run, &part);
}

}  // namespace axonn
