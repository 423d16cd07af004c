#include <cstdio>

#include <axonn/coconet/oracle/oracle.hpp>

#include "schedule_commands.hpp"

using namespace axonn::coconet;

namespace {

constexpr double kTolerance = 1e-9;
constexpr int kRuns = 4;      // each program's: two cuts, two orders
constexpr int64_t kSize = 7;  // symbols without a value: no multiple of the ranks

std::string difference_of(const Program& program, const Program& scheduled, const ScheduleOptions& options, int ranks) {
  for (const Cut cut : {Cut::contiguous(), Cut::cyclic(2, 1)})
    for (const uint64_t order : {options.seed, options.seed + 1}) {
      OracleOptions oracle{.ranks = ranks,
                           .sizes = sizes_of(program, options, kSize),
                           .cut = cut,
                           .scalars = scalars_of(program, options)};
      oracle.seed = oracle.order = order;
      const OracleInputs inputs = random_inputs(program, oracle, order);
      const std::string found =
          difference(run_oracle(program, inputs, oracle), run_oracle(scheduled, inputs, oracle), kTolerance);
      if (!found.empty()) return found;
    }
  return "";
}

}  // namespace

int run_check(const ScheduleOptions& options) {
  const ProgramFile file = load_file(options);
  std::vector<std::pair<std::string, Program>> all;
  for (const std::string& name : schedules_of(file, options)) all.emplace_back(name, file.scheduled(name).program());
  // All of it is known before anything runs.
  for (const auto& [name, scheduled] : all)
    for (const int ranks : options.ranks) {
      const OracleOptions oracle{.ranks = ranks, .sizes = sizes_of(file.program, options, kSize)};
      of_schedule(file, name, [&] { check_oracle_cost(scheduled, oracle, 2 * kRuns); });
    }
  bool equal = true;
  for (const auto& [name, scheduled] : all) {
    for (const int ranks : options.ranks) {
      const std::string found =
          of_schedule(file, name, [&] { return difference_of(file.program, scheduled, options, ranks); });
      std::printf("%-16s %2d ranks  %s\n", name.c_str(), ranks, found.empty() ? "equal" : found.c_str());
      equal = equal && found.empty();
    }
  }
  return equal ? 0 : 1;
}
