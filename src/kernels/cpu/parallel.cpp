#include "kernels/cpu/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

// The calls that a compiler makes of "#pragma omp parallel" for GCC's OpenMP. The OpenMP of clang
// and of Intel has these functions too, so LibTorch's own serves, whichever it is.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace axonn::detail {
namespace {

struct Team {
  int64_t begin, end, grain;
  RunPart run;
  const void* part;
  std::atomic_flag failed;
  std::exception_ptr error;
};

void run_part(const Team& team, int number, int64_t first, int64_t last) {
  const at::internal::ThreadIdGuard thread(number);
  const c10::ParallelGuard nested(true);
  team.run(team.part, first, last);
}

void run_member(void* data) {
  auto& team = *static_cast<Team*>(data);
  const int64_t count = team.end - team.begin;
  int64_t members = omp_get_num_threads();
  if (team.grain > 0) members = std::min(members, at::divup(count, team.grain));
  const int number = omp_get_thread_num();
  const int64_t share = at::divup(count, members), first = team.begin + number * share;
  if (first >= team.end) return;
  try {
    run_part(team, number, first, std::min(team.end, first + share));
  } catch (...) {
    if (!team.failed.test_and_set()) team.error = std::current_exception();
  }
}

}  // namespace

void run_in_parallel(int64_t begin, int64_t end, int64_t grain, RunPart run, const void* part) {
  if (begin >= end) return;
  at::internal::lazy_init_num_threads();
  Team team{begin, end, grain, run, part, {}, {}};
  const int64_t count = end - begin;
  if (count <= std::max<int64_t>(grain, 1) || at::in_parallel_region() || at::get_num_threads() <= 1)
    return run_part(team, 0, begin, end);
  GOMP_parallel(run_member, &team, 0, 0);
  if (team.error) std::rethrow_exception(team.error);
}

}  // namespace axonn::detail
