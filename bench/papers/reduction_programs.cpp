// reduction_programs: synthesised reduction programs (P2), compared with the plain all-reduce over
// data or the plain reduce-scatter over Z on real ranks, and with the planner's prediction.
//   scripts/cluster run --nodes 2 --rate 200mbit -n 8 --
//     build/release/bin/reduction_programs --machine mine.toml
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>

#include "axonn/comm/environment.hpp"
#include "axonn/comm/programs/reduction_runner.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/reduction/reduction_planner.hpp"
#include "medians.hpp"

namespace {

using namespace axonn;

using Groups = std::vector<std::vector<int>>;

constexpr const char* kWhere = "bench.reduction_programs";

struct Options {
  std::string machine, grid, bytes = "4M";
  ReductionGoal goal = ReductionGoal::all_reduce;
  int top = 3, repetitions = 9;
};

bool can_run(const ReductionProgram& program, const Groups& scattered) {
  try {
    if (!scattered.empty()) ReductionRunner::check_scatters(program, scattered);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

struct Candidate {
  ReductionProgram program;
  double seconds = 0;  // by prediction
};

// The fastest programs by prediction, and the plain collective at the end. `scattered`: the groups
// of a reduce-scatter, otherwise empty.
std::vector<Candidate> candidates(const Options& options, const Grid& grid, Axis axis, const Groups& scattered,
                                  double bytes) {
  const auto planned = plan_reductions(find_machine(options.machine), grid, axis, bytes, options.goal);
  std::vector<Candidate> chosen, plain;
  for (size_t i = 0; i < planned.size(); ++i) {
    const Candidate one = {planned.program(i), planned.seconds(i)};
    if (!can_run(one.program, scattered)) continue;
    if (one.program.steps.size() == 1 && plain.empty())
      plain.push_back(one);
    else if (chosen.size() < static_cast<size_t>(options.top))
      chosen.push_back(one);
  }
  AXONN_ASSERT(!plain.empty(), "the planner names the plain collective too");
  chosen.push_back(plain.front());
  return chosen;
}

int run(const Options& options) {
  Environment environment;
  const int ranks = environment.ranks();
  const bool scatters = options.goal != ReductionGoal::all_reduce;
  const Axis axis = scatters ? Axis::z : Axis::data;
  GridShape shape;
  shape[axis] = ranks;
  const Grid grid(options.grid.empty() ? shape : parse_grid_shape(options.grid));
  check_shape(grid.shape(), ranks);
  const int members = grid.shape()[axis];
  AXONN_CHECK(members > 1, kWhere, "grid ", grid.shape().to_string(), " has nothing to sum over ", to_string(axis));
  Groups scattered;
  if (scatters)
    for (const Group& group : grid.groups(axis)) scattered.push_back(group.ranks);
  const int64_t bytes = parse_count(options.bytes, "--bytes", Suffixes::binary),
                elements = bytes / static_cast<int64_t>(sizeof(float)) / members * members;
  const auto programs = candidates(options, grid, axis, scattered, static_cast<double>(bytes));

  std::vector<ReductionRunner> runners;
  for (const auto& one : programs)
    runners.emplace_back(environment, one.program, environment.rank(), ranks,
                         ReductionRunnerOptions{.scatter_groups = scattered});
  const at::Tensor data = at::zeros({elements}, at::kFloat), shard = at::zeros({elements / members}, at::kFloat);
  const std::vector<int64_t> counts(static_cast<size_t>(members), shard.numel());
  std::vector<std::function<void()>> calls;
  for (auto& runner : runners) {
    calls.emplace_back(
        [&, scatters] { (scatters ? runner.reduce_scatter(data, shard, counts) : runner.run(data)).wait(); });
    data.fill_(1);
    calls.back()();
    AXONN_CHECK((scatters ? shard : data).eq(static_cast<double>(members)).all().item<bool>(), kWhere, "wrong sum");
  }
  data.zero_();  // sums of zeros neither overflow nor slow down
  const auto measured = bench::medians(environment, options.repetitions, calls);
  if (environment.rank() != 0) return 0;

  std::printf(
      "# %d ranks, %s of each %s on grid %s; medians of %d interleaved repetitions, the slowest rank's seconds\n",
      ranks, bytes_text(static_cast<double>(bytes)).c_str(), scatters ? "reduce-scattered over z" : "summed over data",
      grid.shape().to_string().c_str(), options.repetitions);
  std::printf("# faster = the plain collective's time / the program's; off = measured factor / predicted - 1\n");
  std::printf("%11s %11s | %8s %8s %6s | program\n", "predicted s", "measured s", "faster", "pred.", "off");
  const size_t plain = programs.size() - 1;
  for (size_t i = 0; i < programs.size(); ++i) {
    const double faster = measured[plain] / measured[i], foretold = programs[plain].seconds / programs[i].seconds;
    std::printf("%11.5f %11.5f | %8.3f %8.3f %+5.0f%% | %s\n", programs[i].seconds, measured[i], faster, foretold,
                100 * (faster / foretold - 1), programs[i].program.to_string().c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Synthesised reduction programs beside the plain collective");
  app.add_option("--machine", options.machine,
                 "machine for the planner: a preset, or a file of `axonn-config calibrate`")
      ->required();
  app.add_option("--goal", options.goal, "all-reduce (default) over data, or reduce-scatter over z")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ReductionGoal>{
          {"all-reduce", ReductionGoal::all_reduce}, {"reduce-scatter", ReductionGoal::scatter}}));
  app.add_option("--grid", options.grid, "grid of the ranks (default: all ranks along the axis of the goal)");
  app.add_option("--bytes", options.bytes, "bytes per rank (k, M, G)");
  app.add_option("--top", options.top, "number of programs besides the plain collective")->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options.repetitions, "repetitions of each measurement")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reduction_programs: %s\n", error.what());
    return 1;
  }
}
