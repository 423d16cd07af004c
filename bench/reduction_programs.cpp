// reduction_programs: synthesised reduction programs (P2) beside the plain all-reduce, on real ranks, and what the planner predicted of
// them.
//   scripts/cluster run --nodes 2 --rate 200mbit -n 8 -- build/release/bin/reduction_programs --machine mine.toml
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>

#include "axonn/comm/environment.hpp"
#include "axonn/comm/reduction_runner.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/reduction_planner.hpp"
#include "medians.hpp"

namespace {

using namespace axonn;

constexpr const char* kWhere = "bench.reduction_programs";

struct Options {
  std::string machine, grid, bytes = "4M";
  int top = 3, repetitions = 9;
};

// The fastest programs by prediction, and the plain all-reduce last.
std::vector<PlannedReduction> candidates(const Machine& machine, const Grid& grid, double bytes, size_t top) {
  std::vector<PlannedReduction> chosen, plain;
  for (const PlannedReduction& one : plan_reductions(machine, grid, Axis::data, bytes)) {
    if (one.program.steps.size() == 1 && plain.empty())
      plain.push_back(one);
    else if (chosen.size() < top)
      chosen.push_back(one);
  }
  AXONN_ASSERT(!plain.empty(), "the planner names the plain all-reduce too");
  chosen.push_back(plain.front());
  return chosen;
}

int run(const Options& options) {
  Environment environment;
  const int ranks = environment.ranks();
  const Grid grid(options.grid.empty() ? GridShape{.data = ranks} : parse_grid_shape(options.grid));
  check_shape(grid.shape(), ranks);
  AXONN_CHECK(grid.shape().data > 1, kWhere, "grid ", grid.shape().to_string(), " has nothing to sum over data");
  const int64_t bytes = parse_count(options.bytes, "--bytes"), elements = bytes / static_cast<int64_t>(sizeof(float));
  const auto programs = candidates(find_machine(options.machine), grid, static_cast<double>(bytes), static_cast<size_t>(options.top));

  std::vector<ReductionRunner> runners;
  for (const auto& one : programs) runners.emplace_back(environment, one.program, environment.rank(), ranks);
  const at::Tensor data = at::zeros({elements}, at::kFloat);
  std::vector<std::function<void()>> calls;
  for (auto& runner : runners) {
    data.fill_(1);
    runner.run(data).wait();
    AXONN_CHECK(data.eq(static_cast<double>(grid.shape().data)).all().item<bool>(), kWhere, "wrong sum");
    calls.emplace_back([&runner, &data] { runner.run(data).wait(); });
  }
  data.zero_();  // sums of zeros neither overflow nor slow down
  const auto measured = bench::medians(environment, options.repetitions, calls);
  if (environment.rank() != 0) return 0;

  std::printf("# %d ranks, %s of each summed over data on grid %s; medians of %d interleaved repetitions, the slowest rank's seconds\n",
              ranks, bytes_text(static_cast<double>(bytes)).c_str(), grid.shape().to_string().c_str(), options.repetitions);
  std::printf("# faster = the plain all-reduce's time / the program's; off = measured factor / predicted - 1\n");
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
  CLI::App app("Synthesised reduction programs beside the plain all-reduce");
  app.add_option("--machine", options.machine, "whose links the planner knows: a preset, or a file of `axonn-config calibrate`")
      ->required();
  app.add_option("--grid", options.grid, "sums are over its data axis (default: all ranks)");
  app.add_option("--bytes", options.bytes, "of every rank (k, M, G)");
  app.add_option("--top", options.top, "programs beside the plain one")->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options.repetitions, "of each measurement")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reduction_programs: %s\n", error.what());
    return 1;
  }
}
