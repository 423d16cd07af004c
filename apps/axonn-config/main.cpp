#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/standard_streams.hpp>
#include <axonn/core/version.hpp>

#include "fit/fit_commands.hpp"
#include "foreign/foreign_layout.hpp"
#include "planner_commands.hpp"
#include "reduction_commands.hpp"

namespace {

constexpr const char* kAbout =
    R"(Ranks the grids X x Y x Z x data for training a network, by a model of their speed and memory.

  axonn-config --gpus 1024 --model gpt80b                                  grids, placements, micro-batches, by seconds
  axonn-config --gpus 8..4096 --model llama/config.json --machine dgx-h100 speed and cost of every count, and the knee
  axonn-config --gpus 32 --model gpt20b --mode aware --batch-tokens 64k    the AxoNN paper's ranking, by communication
  axonn-config --gpus 1024 --model gpt80b --html grids.html                the same as a page to sort and filter
  axonn-config explain 4x1x16x16 --model gpt80b                            every term of one grid
  axonn-config launch 4x1x16x16 --model gpt80b > run.sbatch                a script that trains on it
  axonn-config export 8x1x8x1 --model gpt5b --to torchtitan                the same in another program's words
  axonn-config machine perlmutter > mine.toml                              a machine file to edit for another machine
  mpirun -n 8 axonn-config calibrate --out mine.toml                       a machine file measured on this machine
  axonn-config fit runs.csv --machine dgx-h100 --out mine.toml             constants from runs that you have timed
  axonn-config validate bench/published/mpt_fsdp_h100.csv --machine dgx-h100    predicted beside published seconds
  axonn-config synthesize "[[2 2] [2 2]]" --reduce 0                       programs for a reduction, fastest first
)";

struct CommandLine {
  PlannerOptions planner;
  ReductionFlags reduction;
  FitFlags fit;
  ExportFlags foreign;
};

struct Command {
  const char *name, *help;
  std::function<void(CLI::App&)> add_flags;
  std::function<int()> run;
};

void add_verbose(CLI::App& app, PlannerOptions& options) {
  app.add_flag("--verbose", options.verbose, "errors name their place in the code");
}

void add_grid_flags(CLI::App& app, PlannerOptions& options) {
  options.add_flags(app);
  app.add_option("grid", options.grid, "X x Y x Z x data, such as 4x1x16x16")->required();
}

std::vector<Command> grid_commands(CommandLine& line) {
  PlannerOptions& options = line.planner;
  return {{"explain", "every term of one grid with its formula and numbers",
           [&](CLI::App& app) {
             add_grid_flags(app, options);
             options.add_explain_flags(app);
           },
           [&] { return run_explain(options); }},
          {"launch", "a batch script for one grid, with the trainer's configuration",
           [&](CLI::App& app) {
             add_grid_flags(app, options);
             options.add_launch_flags(app);
           },
           [&] { return run_launch(options); }}};
}

std::vector<Command> machine_commands(CommandLine& line) {
  PlannerOptions& options = line.planner;
  return {{"machine", "a machine as a TOML file",
           [&](CLI::App& app) {
             app.add_option("name", options.machine, "a preset, or a .toml file to check")->required();
             add_verbose(app, options);
           },
           [&] { return run_machine(options); }},
          {"calibrate", "under mpirun or srun: measures the machine and writes the TOML file of --machine"},
          {"fit", "fits a machine's constants to measured runs",
           [&](CLI::App& app) { line.fit.add_to_fit(app, options); }, [&] { return run_fit(line.fit, options); }},
          {"validate", "predicted beside measured seconds of many runs",
           [&](CLI::App& app) { line.fit.add_to_validate(app, options); },
           [&] { return run_validate(line.fit, options); }}};
}

std::vector<Command> reduction_commands(CommandLine& line) {
  return {{"simulate", "seconds of a reduction program on a machine",
           [&](CLI::App& app) {
             line.reduction.add_to_simulate(app);
             add_verbose(app, line.planner);
           },
           [&] { return run_simulate(line.reduction); }},
          {"synthesize", "every program of collectives for a reduction, fastest first",
           [&](CLI::App& app) {
             line.reduction.add_to_synthesize(app);
             add_verbose(app, line.planner);
           },
           [&] { return run_synthesize(line.reduction); }}};
}

std::vector<Command> foreign_commands(CommandLine& line) {
  return {{"export", "one grid in the words of Megatron-LM, torchtitan or DeepSpeed",
           [&](CLI::App& app) {
             app.add_option("--to", line.foreign.program, "megatron, torchtitan or deepspeed")->required();
             add_grid_flags(app, line.planner);
           },
           [&] { return run_export(line.foreign, line.planner); }},
          {"import", "the grid that a file of one of them describes",
           [&](CLI::App& app) {
             app.add_option("file", line.foreign.file, "what export prints, or such a file of yours")->required();
             app.add_option("--from", line.foreign.program, "megatron, torchtitan or deepspeed")->required();
             app.add_option("--gpus", line.foreign.gpus, "number of GPUs")->required();
             line.planner.add_import_flags(app);
           },
           [&] { return run_import(line.foreign, line.planner); }}};
}

// Only the subcommands that an argument names get their flags: all flags of all of them are most of
// the program's start.
std::vector<axonn::Subcommand> add_commands(CLI::App& app, CommandLine& line, std::span<char* const> arguments) {
  std::vector<axonn::Subcommand> subcommands;
  for (const auto commands : {grid_commands, machine_commands, reduction_commands, foreign_commands}) {
    for (const Command& command : commands(line)) {
      CLI::App& part = *app.add_subcommand(command.name, command.help);
      if (std::ranges::find(arguments, std::string_view(command.name)) == arguments.end() || !command.run) continue;
      command.add_flags(part);
      subcommands.push_back({&part, command.run});
    }
  }
  return subcommands;
}

int run(int argc, char** argv, CommandLine& line) {
  if (argc > 1 && std::string_view(argv[1]) == "calibrate") return run_calibrate(argv + 1);  // has its own flags
  CLI::App app(kAbout, "axonn-config");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 1 no grid fits; 2 an error in the command line or in a file.");
  app.require_subcommand(0, 1);
  line.planner.add_search_flags(app);
  const std::span arguments(argv, static_cast<size_t>(argc));
  return axonn::run_subcommand(app, arguments, add_commands(app, line, arguments),
                               [&] { return run_ranking(line.planner); });
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  axonn::open_standard_streams();
  try {
    const int status = run(argc, argv, line);
    axonn::finish_output();
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-config: %s\n", axonn::sentence_of(error, line.planner.verbose).c_str());
  }
  return 2;
}
