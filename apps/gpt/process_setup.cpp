#include "process_setup.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include <ATen/Parallel.h>

#include <axonn/core/env.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/log.hpp>

namespace {

axonn::log::Options log_options() {
  axonn::log::Options options;
  if (const auto level = axonn::env::get("AXONN_LOG")) options.level = axonn::log::parse_level(*level);
  const int all_ranks = axonn::env::get_int("AXONN_LOG_ALL_RANKS").value_or(0);
  AXONN_CHECK(all_ranks == 0 || all_ranks == 1, "gpt.environment", "AXONN_LOG_ALL_RANKS must be 0 or 1, got ", all_ranks);
  options.all_ranks = all_ranks == 1;
  return options;
}

}  // namespace

void check_environment() {
  log_options();
  const int threads = axonn::env::get_int("OMP_NUM_THREADS").value_or(1);
  AXONN_CHECK(threads >= 1, "gpt.environment", "OMP_NUM_THREADS must be at least 1, got ", threads);
}

void configure_log(const axonn::Environment& environment, const std::string& grid) {
  auto options = log_options();
  options.rank = environment.rank();
  options.ranks = environment.ranks();
  options.grid = grid;
  axonn::log::configure(options);
}

void share_cores(const axonn::Environment& environment) {
  if (axonn::env::get("OMP_NUM_THREADS")) return;
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  const int own = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : cores;  // a launcher may have bound this rank
  at::set_num_threads(std::max(1, std::min(own, cores / environment.local_ranks())));
}
