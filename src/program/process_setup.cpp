#include "program/process_setup.hpp"

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

void configure_log(const Environment& environment, const std::string& grid) {
  auto options = log_options();
  options.rank = environment.rank();
  options.ranks = environment.ranks();
  options.grid = grid;
  log::configure(options);
}

}  // namespace axonn
