#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>

#include <axonn/core/command_line.hpp>
#include <axonn/core/env.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/log.hpp>
#include <axonn/core/version.hpp>

#include "commands.hpp"
#include "job_end.hpp"
#include "local_job.hpp"
#include "process_setup.hpp"

namespace {

struct CommandLine {
  GptOptions options;
  axonn::OptionTable table;
  axonn::OptionTable sampling_table;
  std::string config;
  bool verbose = false;
  bool environment_table = false;
  enum class Command { train, generate, verify } command = Command::train;
};

void add_train(CLI::App& app, CommandLine& line) {
  line.table.add_flags(app);
  app.add_option("--config", line.config, "TOML file with the same keys");
  app.add_option("--resume", line.options.resume, "run directory or checkpoint to go on from");
  app.add_flag("--dry-run", line.options.dry_run, "print shard shapes, arenas and predicted memory; start nothing");
}

void add_generate(CLI::App& app, CommandLine& line) {
  line.options.bind_sampling(line.sampling_table);
  line.sampling_table.add_flags(app);
  line.table.add_flags(app, {"run.grid", "run.order", "run.device"});
}

void add_verify(CLI::App& app, CommandLine& line) {
  line.table.add_flags(app, {"model", "run.grid", "run.dtype", "run.device", "run.seed", "train.steps", "train.batch", "train.optimizer",
                             "train.learning_rate", "train.clip"});
  app.add_option("--config", line.config, "TOML file with the same keys");
  app.add_option("--micro-batches", line.options.micro_batches, "forwards a step");
}

void print_environment_table() {
  for (const auto& variable : axonn::env::table())
    std::printf("%-28s %-28s default: %s\n%28s %s\n", std::string(variable.name).c_str(), std::string(variable.values).c_str(),
                std::string(variable.fallback).c_str(), "", std::string(variable.meaning).c_str());
}

// The text to print and leave with, if any.
std::optional<std::string> parse(CommandLine& line, int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "verify") line.options.become_small();
  line.options.bind(line.table);
  CLI::App app("Trains GPTs on a grid of X x Y x Z x data ranks. Without a subcommand: train.", "gpt");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Ctrl-C, SIGTERM or SIGUSR1 end a training run after its step, with a checkpoint.\n"
             "Exit status: 0 done; 1 an error, told in one sentence; 2 an error in what was typed or configured, before anything started.");
  app.add_flag("--help-env", line.environment_table, "print the environment variables that are read");
  app.require_subcommand(0, 1);
  CLI::App& train = *app.add_subcommand("train", "train on text (the default)");
  CLI::App& generate = *app.add_subcommand("generate", "write text with a trained model");
  CLI::App& verify = *app.add_subcommand("verify", "compare a grid with one rank, tensor by tensor");
  add_train(app, line);
  add_train(train, line);
  add_generate(generate, line);
  add_verify(verify, line);
  for (CLI::App* part : {&app, &train, &generate, &verify})
    part->add_flag("--verbose", line.verbose, "errors say where in the code they come from");
  const auto text = axonn::parse_command_line(app, {argv, static_cast<size_t>(argc)});
  if (generate.parsed()) line.command = CommandLine::Command::generate;
  if (verify.parsed()) line.command = CommandLine::Command::verify;
  return text;
}

int run(CommandLine& line, axonn::Environment& environment) {
  switch (line.command) {
    case CommandLine::Command::generate:
      return run_generate(environment, line.options);
    case CommandLine::Command::verify:
      return run_verify(environment, line.options);
    case CommandLine::Command::train:
      break;
  }
  return run_train(environment, line.options, line.table);
}

// What can be wrong before a rank is started. True: the process has nothing more to do.
bool prepare(CommandLine& line, char** argv, int& status) {
  auto& options = line.options;
  check_environment();
  if (!line.config.empty()) line.table.read_toml_file(line.config);
  options.apply_preset(line.table);
  if (line.command == CommandLine::Command::verify) {
    check_verify(options);
    if (launched() || options.shape().ranks() == 1) return false;
    status = run_local_job(static_cast<int>(options.shape().ranks()), argv);
    return true;
  }
  if (line.command == CommandLine::Command::generate) {
    check_generate(options);
    return false;
  }
  if (options.resume.empty()) options.check();  // otherwise the checkpoint has a say
  if (!options.dry_run) return false;
  options.check();
  status = launched_rank() == 0 ? run_dry(options) : 0;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  int status = 0;
  try {
    if (const auto text = parse(line, argc, argv)) {
      if (launched_rank() == 0) std::printf("%s", text->c_str());
      return 0;
    }
    if (line.environment_table) {
      print_environment_table();
      return 0;
    }
    if (prepare(line, argv, status)) return status;
  } catch (const std::exception& error) {
    return end_before_start(error, line.verbose);
  }

  try {
    axonn::Environment environment(argc, argv);
    JobEnd end(environment, line.verbose);
    try {
      configure_log(environment, "");
      share_cores(environment);
      return run(line, environment);
    } catch (const std::exception& error) {
      return end.after(error);
    }
  } catch (const std::exception& error) {
    return end_before_start(error, line.verbose);
  }
}
