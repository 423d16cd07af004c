#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include <axonn/core/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/version.hpp>

#include "planner_commands.hpp"

namespace {

constexpr const char* kAbout = R"(Ranks the grids X x Y x Z x data on which a network can be trained by a model of their speed and memory.

  axonn-config --gpus 1024 --model gpt80b                                  every grid, placement and micro-batch, by seconds of a step
  axonn-config --gpus 32 --model gpt20b --mode aware --batch-tokens 64k    the AxoNN paper's ranking, by seconds of communication
  axonn-config explain 4x1x16x16 --model gpt80b                            every term of one grid
  axonn-config launch 4x1x16x16 --model gpt80b > run.sbatch                a script that trains on it
  axonn-config machine perlmutter > mine.toml                              a machine to describe one's own by)";

using Command = int (*)(const PlannerOptions&);

int run(int argc, char** argv, PlannerOptions& options) {
  CLI::App app(kAbout, "axonn-config");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 1 no grid fits; 2 an error in what was typed or in a file.");
  app.require_subcommand(0, 1);
  options.add_flags(app);
  app.add_flag("--json", options.json, "JSON");
  app.add_flag("--csv", options.csv, "a line for each layout");
  app.add_option("--plot", options.plot, "SVG file: bars of the layouts by part");
  app.add_option("--measurements", options.measurements, "for --plot: lines of a grid and its seconds, such as 4x1x16x16,9.87");

  CLI::App& explain = *app.add_subcommand("explain", "every term of one grid with its formula and numbers");
  CLI::App& launch = *app.add_subcommand("launch", "a batch script for one grid, with the trainer's configuration");
  CLI::App& machine = *app.add_subcommand("machine", "a machine as a TOML file");
  for (CLI::App* one : {&explain, &launch}) {
    options.add_flags(*one);
    one->add_option("grid", options.grid, "X x Y x Z x data, such as 4x1x16x16")->required();
  }
  launch.add_option("--launcher", options.launcher, "srun (default) or mpirun");
  machine.add_option("name", options.machine, "a preset, or a .toml file to check")->required();

  if (const auto text = axonn::parse_command_line(app, {argv, static_cast<size_t>(argc)})) {
    std::printf("%s", text->c_str());
    return 0;
  }
  const Command command = explain.parsed() ? run_explain : launch.parsed() ? run_launch : machine.parsed() ? run_machine : run_ranking;
  return command(options);
}

}  // namespace

int main(int argc, char** argv) {
  PlannerOptions options;
  try {
    return run(argc, argv, options);
  } catch (const axonn::Error& error) {
    std::fprintf(stderr, "axonn-config: %s\n", options.verbose ? error.what() : error.sentence().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-config: %s\n", error.what());
  }
  return 2;
}
