// optimizer_schedules: the update of a network's weights over its replicas, under each schedule,
// beside an all-reduce and LibTorch's kernels.
//   scripts/mpirun -n 4 build/release/bin/optimizer_schedules --least 20 --most 24
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/overlap/execute/network_update.hpp"
#include "axonn/overlap/transform/program_file.hpp"
#include "medians.hpp"
#include "optimizer_baselines.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;

struct Options {
  int least = 10, most = 24;  // powers of two
  int turns = 0;              // 0: depends on the size
  std::string program = "configs/programs/adamw.program";
  std::string dtype = "fp32";
  bool clip = false;
};

ArenaTypes types_of(const Options& options) {
  return options.dtype == "fp32" ? ArenaTypes{} : ArenaTypes{.weights = at::kBFloat16};
}

overlap::UpdateProgram program_of(const Options& options) {
  overlap::UpdateProgram program(overlap::load_program_file(options.program).program);
  if (!options.clip) program = program.without_factor();
  using overlap::ElementType;
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
  double all_reduce, baseline, ours;
};

Times measure(Environment& environment, const Options& options, int64_t elements, UpdateSchedule schedule) {
  Baseline baseline(environment, {.elements = elements,
                                  .lamb = options.program.find("lamb") != std::string::npos,
                                  .clip = options.clip,
                                  .rounded = options.dtype != "fp32"});
  const Grid grid({.data = environment.ranks()});
  Communicators communicators(environment, grid, environment.rank(), c10::kCPU);
  overlap::NetworkUpdate update(communicators, grid, environment.rank(),
                                arena_of(grid, environment.rank(), elements, options), program_of(options), schedule);
  const int turns =
      options.turns > 0 ? options.turns : static_cast<int>(std::clamp<int64_t>((int64_t{1} << 27) / elements, 9, 201));
  int64_t number = 1;
  const auto times = medians(
      environment, turns, {[&] { baseline.all_reduce(); }, [&] { baseline.step(number++); }, [&] { update.step(); }});
  return {times[0], times[1], times[2]};
}

// What --optimizer-schedule auto takes, and the seconds until it knows.
std::pair<UpdateSchedule, double> choose(Environment& environment, const Options& options, int64_t elements) {
  const Grid grid({.data = environment.ranks()});
  Communicators communicators(environment, grid, environment.rank(), c10::kCPU);
  const overlap::UpdateProgram program = program_of(options);
  const auto start = std::chrono::steady_clock::now();
  const UpdateChoice choice = tune_update({.communicators = communicators,
                                           .grid = grid,
                                           .rank = environment.rank(),
                                           .program = program,
                                           .types = types_of(options),
                                           .over_z = {0, elements}},
                                          {UpdateSchedule::fuse, UpdateSchedule::rs_opt_ag}, 2);
  return {choice.schedule, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

int run(const Options& options) {
  Environment environment;
  const bool lead = environment.rank() == 0;
  if (lead)
    std::printf(
        "# %s, %s weights, %s, %d ranks (%s); ratio = time of an all-reduce and LibTorch's update / ours; medians of "
        "interleaved runs; auto: its choice, over the row's best, and the seconds that it took\n"
        "%9s | %12s %12s | %8s | %8s %9s %8s | %9s | %9s %6s %8s\n",
        options.program.c_str(), options.dtype.c_str(), options.clip ? "clipped" : "not clipped", environment.ranks(),
        std::string(environment.transport()).c_str(), "elements", "all-reduce", "baseline us", "bound", "ar-opt",
        "rs-opt-ag", "fuse", "fuse / rs", "auto", "behind", "seconds");
  for (int power = options.least; power <= options.most; power += 2) {
    std::vector<double> ratios;
    Times times{};
    for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
      times = measure(environment, options, int64_t{1} << power, schedule);
      ratios.push_back(times.baseline / times.ours);
    }
    const auto [chosen, seconds] = choose(environment, options, int64_t{1} << power);
    if (!lead) continue;
    std::printf("%9s | %12.1f %12.1f | %8.2f | %8.2f %9.2f %8.2f | %9.2f | %9s %5.1f%% %8.2f\n",
                ("2^" + std::to_string(power)).c_str(), times.all_reduce * 1e6, times.baseline * 1e6,
                times.baseline / times.all_reduce, ratios[0], ratios[1], ratios[2], ratios[2] / ratios[1],
                std::string(to_string(chosen)).c_str(),
                100 * (1 - ratios[static_cast<size_t>(chosen)] / *std::ranges::max_element(ratios)), seconds);
    std::fflush(stdout);
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
