// optimizer_schedules: the update of a network's weights over its replicas, under each schedule,
// beside an all-reduce and LibTorch's kernels.
//   scripts/mpirun -n 4 build/release/bin/optimizer_schedules --least 20 --most 24
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/core/error.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/overlap/execute/network_update.hpp"
#include "medians.hpp"
#include "optimizer_baselines.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;

struct Options {
  int least = 10, most = 24;  // powers of two
  int turns = 0;              // 0: depends on the size
  int rounds = 3;
  std::string program = "configs/programs/adamw.program";
  std::string dtype = "fp32";
  bool clip = false;
};

ArenaTypes types_of(const Options& options) {
  return options.dtype == "fp32" ? ArenaTypes{} : ArenaTypes{.weights = at::kBFloat16};
}

coconet::UpdateProgram program_of(const Options& options) {
  coconet::UpdateProgram program(coconet::load_program_file(options.program).program);
  if (!options.clip) program = program.without_factor();
  using coconet::ElementType;
  return program.with_types(options.dtype == "fp32" ? ElementType::fp32 : ElementType::bf16, ElementType::fp32,
                            ElementType::fp32);
}

// A network of one parameter. Zeros stay zeros, in memory of their own.
std::shared_ptr<Arena> arena_of(const Grid& grid, int rank, int64_t elements, const Options& options) {
  const ShardSpec spec{.dims = {Dim::whole(elements)}, .over_z = true};
  auto arena =
      std::make_shared<Arena>(std::vector<Arena::Entry>{{"w", spec, true}}, grid, rank, types_of(options), c10::kCPU);
  arena->gradients().fill_(0);
  return arena;
}

struct Times {
  double all_reduce, baseline;
  std::array<double, 3> schedules;
  double chosen;

  double behind() const { return chosen / std::ranges::min(schedules) - 1; }
};

struct Choice {
  UpdateChoice update;
  double seconds;  // until it is known
};

// The choice of --optimizer-schedule auto.
Choice choose(Environment& environment, const Options& options, int64_t elements) {
  const Grid grid({.data = environment.ranks()});
  Communicators communicators(environment, grid, environment.rank(), c10::kCPU);
  const coconet::UpdateProgram program = program_of(options);
  const auto start = std::chrono::steady_clock::now();
  const UpdateChoice choice = tune_update({.communicators = communicators,
                                           .grid = grid,
                                           .rank = environment.rank(),
                                           .program = program,
                                           .types = types_of(options),
                                           .over_z = {0, elements}},
                                          {UpdateSchedule::fuse, UpdateSchedule::rs_opt_ag}, 2);
  return {choice, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

// All in turns, each in memory of its own.
Times measure(Environment& environment, const Options& options, int64_t elements, const UpdateChoice& chosen) {
  Baseline baseline(environment, {.elements = elements,
                                  .lamb = options.program.find("lamb") != std::string::npos,
                                  .clip = options.clip,
                                  .rounded = options.dtype != "fp32"});
  const Grid grid({.data = environment.ranks()});
  Communicators communicators(environment, grid, environment.rank(), c10::kCPU);
  const int turns =
      options.turns > 0 ? options.turns : static_cast<int>(std::clamp<int64_t>((int64_t{1} << 27) / elements, 9, 201));
  int64_t number = 1;
  std::vector<std::function<void()>> calls = {[&] { baseline.all_reduce(); }, [&] { baseline.step(number++); }};
  std::vector<UpdateChoice> runs;
  for (const auto& [name, schedule] : Names<UpdateSchedule>::all) runs.push_back({schedule});
  runs.push_back(chosen);
  for (const UpdateChoice& run : runs) {
    const auto program = program_of(options);
    const auto update = std::make_shared<NetworkUpdate>(communicators, grid, environment.rank(),
                                                        arena_of(grid, environment.rank(), elements, options), program,
                                                        program.scheduled(run.schedule).program(), run.run);
    calls.push_back([update] { update->step(); });
  }
  const auto times = medians(environment, turns, calls);
  return {times[0], times[1], {times[2], times[3], times[4]}, times[5]};
}

void print_head(const Environment& environment, const Options& options) {
  std::printf(
      "# %s, %s weights, %s, %d ranks (%s); ratio = time of an all-reduce and LibTorch's update / ours; medians of "
      "interleaved runs, of %d such rounds the one in the middle; behind: time of auto's choice over the row's best, "
      "and least to most of the rounds; seconds: of the choice\n"
      "%9s | %12s %12s | %8s | %9s %9s %9s %9s | %8s %16s | %8s | %s\n",
      options.program.c_str(), options.dtype.c_str(), options.clip ? "clipped" : "not clipped", environment.ranks(),
      std::string(environment.transport()).c_str(), options.rounds, "elements", "all-reduce", "baseline us", "bound",
      "ar-opt", "rs-opt-ag", "fuse", "auto", "behind", "least to most", "seconds", "auto is");
}

void print_row(int power, std::vector<Times> rounds, const Choice& choice) {
  std::ranges::sort(rounds, {}, &Times::behind);
  const Times& times = rounds[rounds.size() / 2];
  std::printf("%9s | %12.1f %12.1f | %8.2f |", ("2^" + std::to_string(power)).c_str(), times.all_reduce * 1e6,
              times.baseline * 1e6, times.baseline / times.all_reduce);
  for (const double seconds : times.schedules) std::printf(" %9.2f", times.baseline / seconds);
  std::printf(" %9.2f | %7.1f%% %6.1f%% to %5.1f%% | %8.2f | %s\n", times.baseline / times.chosen, 100 * times.behind(),
              100 * rounds.front().behind(), 100 * rounds.back().behind(), choice.seconds,
              choice.update.to_string().c_str());
  std::fflush(stdout);
}

int run(const Options& options) {
  Environment environment;
  const bool lead = environment.rank() == 0;
  if (lead) print_head(environment, options);
  for (int power = options.least; power <= options.most; power += 2) {
    const int64_t elements = int64_t{1} << power;
    const Choice choice = choose(environment, options, elements);
    std::vector<Times> rounds;
    for (int round = 0; round < options.rounds; ++round)
      rounds.push_back(measure(environment, options, elements, choice.update));
    if (lead) print_row(power, std::move(rounds), choice);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("updates of a network's weights under each schedule, beside LibTorch's");
  app.add_option("--least", options.least, "smallest network: 2^N elements");
  app.add_option("--most", options.most, "largest network: 2^N elements; N grows by 2");
  app.add_option("--turns", options.turns, "repetitions; 0: depends on the size");
  app.add_option("--rounds", options.rounds, "how often a row is measured")->check(CLI::PositiveNumber);
  app.add_option("--program", options.program, "an optimizer's program, AdamW's or LAMB's");
  app.add_option("--dtype", options.dtype, "type of the weights; gradients and master weights are fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_flag("--clip", options.clip, "clip the gradients");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "optimizer_schedules: %s\n", error.what());
    return 1;
  }
}
