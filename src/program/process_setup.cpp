#include "program/process_setup.hpp"

#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include <ATen/Parallel.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

log::Options log_options() {
  log::Options options;
  if (const auto level = env::get("AXONN_LOG")) options.level = log::parse_level(*level);
  const int all_ranks = env::get_int("AXONN_LOG_ALL_RANKS").value_or(0);
  AXONN_CHECK(all_ranks == 0 || all_ranks == 1, "program.environment", "AXONN_LOG_ALL_RANKS must be 0 or 1, got ",
              all_ranks);
  options.all_ranks = all_ranks == 1;
  return options;
}

}  // namespace

void check_environment() {
  log_options();
  const int threads = env::get_int("OMP_NUM_THREADS").value_or(1);
  AXONN_CHECK(threads >= 1, "program.environment", "OMP_NUM_THREADS must be at least 1, got ", threads);
}

void keep_freed_memory() {
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // maximum in glibc
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 * kMiB);
}

void configure_log(const Environment& environment, const std::string& grid) {
  auto options = log_options();
  options.rank = environment.rank();
  options.ranks = environment.ranks();
  options.grid = grid;
  log::configure(options);
}

void share_cores(const Environment& environment) {
  if (env::get("OMP_NUM_THREADS")) return;
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  // A launcher may have bound this rank to some cores.
  const int own = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : cores;
  at::set_num_threads(std::max(1, std::min(own, cores / environment.local_ranks())));
}

}  // namespace axonn
