#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/config/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/version.hpp>

#include "fit_commands.hpp"
#include "foreign_layout.hpp"
#include "planner_commands.hpp"
#include "reduction_commands.hpp"

namespace {

constexpr const char* kAbout =
    R"(Ranks the grids X x Y x Z x data for training a network, by a model of their speed and memory.

  axonn-config --gpus 1024 --model gpt80b                                  grids, placements, micro-batches, by seconds
  axonn-config --gpus 8..4096 --model llama/config.json --machine dgx-h100 speed and cost of every count, and the knee
  axonn-config --gpus 32 --model gpt20b --mode aware --batch-tokens 64k    the AxoNN paper's ranking, by communication
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

std::vector<axonn::Subcommand> add_commands(CLI::App& app, CommandLine& line) {
  PlannerOptions& options = line.planner;
  CLI::App& explain = *app.add_subcommand("explain", "every term of one grid with its formula and numbers");
  CLI::App& launch = *app.add_subcommand("launch", "a batch script for one grid, with the trainer's configuration");
  CLI::App& machine = *app.add_subcommand("machine", "a machine as a TOML file");
  app.add_subcommand("calibrate", "under mpirun or srun: measures the machine and writes the TOML file of --machine");
  CLI::App& fit = *app.add_subcommand("fit", "fits a machine's constants to measured runs");
  CLI::App& validate = *app.add_subcommand("validate", "predicted beside measured seconds of many runs");
  CLI::App& simulate = *app.add_subcommand("simulate", "seconds of a reduction program on a machine");
  CLI::App& synthesize =
      *app.add_subcommand("synthesize", "every program of collectives for a reduction, fastest first");
  CLI::App& exports = *app.add_subcommand("export", "one grid in the words of Megatron-LM, torchtitan or DeepSpeed");
  CLI::App& imports = *app.add_subcommand("import", "the grid that a file of one of them describes");
  exports.add_option("--to", line.foreign.program, "megatron, torchtitan or deepspeed")->required();
  imports.add_option("file", line.foreign.file, "what export prints, or such a file of yours")->required();
  imports.add_option("--from", line.foreign.program, "megatron, torchtitan or deepspeed")->required();
  imports.add_option("--gpus", line.foreign.gpus, "number of GPUs")->required();
  for (CLI::App* one : {&explain, &launch, &exports}) {
    options.add_flags(*one);
    one->add_option("grid", options.grid, "X x Y x Z x data, such as 4x1x16x16")->required();
  }
  options.add_explain_flags(explain);
  options.add_launch_flags(launch);
  line.fit.add_to_fit(fit, options);
  line.fit.add_to_validate(validate, options);
  machine.add_option("name", options.machine, "a preset, or a .toml file to check")->required();
  line.reduction.add_to_simulate(simulate);
  line.reduction.add_to_synthesize(synthesize);
  for (CLI::App* one : {&machine, &imports, &simulate, &synthesize})
    one->add_flag("--verbose", options.verbose, "errors name their place in the code");
  return {{&explain, [&] { return run_explain(options); }},
          {&launch, [&] { return run_launch(options); }},
          {&exports, [&] { return run_export(line.foreign, options); }},
          {&imports, [&] { return run_import(line.foreign); }},
          {&machine, [&] { return run_machine(options); }},
          {&fit, [&] { return run_fit(line.fit, options); }},
          {&validate, [&] { return run_validate(line.fit, options); }},
          {&simulate, [&] { return run_simulate(line.reduction); }},
          {&synthesize, [&] { return run_synthesize(line.reduction); }}};
}

int run(int argc, char** argv, CommandLine& line) {
  if (argc > 1 && std::string_view(argv[1]) == "calibrate") return run_calibrate(argv + 1);  // has its own flags
  CLI::App app(kAbout, "axonn-config");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 1 no grid fits; 2 an error in the command line or in a file.");
  app.require_subcommand(0, 1);
  line.planner.add_search_flags(app);
  return axonn::run_subcommand(app, {argv, static_cast<size_t>(argc)}, add_commands(app, line),
                               [&] { return run_ranking(line.planner); });
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  try {
    return run(argc, argv, line);
  } catch (const axonn::Error& error) {
    std::fprintf(stderr, "axonn-config: %s\n", line.planner.verbose ? error.what() : error.sentence().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-config: %s\n", error.what());
  }
  return 2;
}
