#include "axonn/program/program.hpp"

#include <cstdio>
#include <exception>
#include <span>

#include <CLI/CLI.hpp>

#include "axonn/transport/launch.hpp"
#include "axonn/config/command_line.hpp"
#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/core/standard_streams.hpp"
#include "axonn/core/version.hpp"
#include "axonn/overlap/execute/rank_tuning.hpp"
#include "program/job_end.hpp"
#include "program/local_job.hpp"
#include "program/process_setup.hpp"

namespace axonn {
namespace {

struct CommandLine {
  Command* command = nullptr;
  bool verbose = false;
  bool environment_table = false;
  std::optional<int> ranks;
};

void print_environment_table() {
  for (const auto& variable : env::table())
    std::printf("%-28s %-28s default: %s\n%28s %s\n", std::string(variable.name).c_str(),
                std::string(variable.values).c_str(), std::string(variable.fallback).c_str(), "",
                std::string(variable.meaning).c_str());
}

// Returns the text to print before the program ends, if any.
std::optional<std::string> parse(const Program& program, CommandLine& line, std::span<const char* const> arguments) {
  CLI::App app(program.about, program.name);
  app.set_version_flag("--version", std::string(version()));
  app.footer(
      "Ctrl-C, SIGTERM or SIGUSR1 end a training run after its step, with a checkpoint.\n"
      "Exit status: 0 done; 1 an error, in one sentence; 2 an error in what was typed or configured, before "
      "anything started.");
  app.add_flag("--help-env", line.environment_table, "print the environment variables that are read");
  app.require_subcommand(0, 1);
  std::vector<CLI::App*> parts = {&app};
  line.command = program.commands.front().get();
  line.command->add_flags(app);
  for (const auto& command : program.commands) {
    CLI::App& part = *parts.emplace_back(app.add_subcommand(command->name(), command->help()));
    command->add_flags(part);
    part.parse_complete_callback([&line, chosen = command.get()] { line.command = chosen; });
  }
  for (CLI::App* part : parts) {
    part->add_flag("--verbose", line.verbose,
                   "a training tells how it computes; errors include their place in the code");
    part->add_option("--ranks", line.ranks, "start this many ranks on this machine, over TCP, without a launcher");
  }
  return parse_command_line(app, arguments);
}

// The ranks have the same arguments, so they come here again.
std::optional<int> start_ranks(int ranks, const Restarts& restarts, char** arguments) {
  AXONN_CHECK(ranks >= 1 && ranks <= kMostLocalRanks, "program.ranks", "--ranks must be in 1 .. ", kMostLocalRanks,
              ", got ", ranks);
  const std::optional<LaunchedRank> place = launched_place();
  AXONN_CHECK(!place || (place->launcher == Launcher::ranks && place->ranks == ranks), "program.ranks",
              "--ranks starts the ranks itself, and a launcher has started this process; leave --ranks out");
  if (place || (ranks == 1 && restarts.most == 0)) return std::nullopt;
  return run_local_job(ranks, arguments, restarts);
}

// These two are called before the job starts, and return an exit status if the process has nothing
// more to do.
std::optional<int> read_command_line(const Program& program, CommandLine& line, std::span<char*> arguments) {
  const std::optional<std::string> text = parse(program, line, arguments);
  if (!text && !line.environment_table) return std::nullopt;
  if (launched_rank() > 0) return 0;
  if (text)
    std::printf("%s", text->c_str());
  else
    print_environment_table();
  return 0;
}

std::optional<int> prepare(CommandLine& line, std::span<char*> arguments) {
  check_environment();
  keep_freed_memory();
  line.command->set_verbose(line.verbose);
  const std::optional<int> status = line.command->prepare(arguments.data());
  if (status) return status;
  const Restarts restarts = line.command->restarts();
  AXONN_CHECK(restarts.most == 0 || line.ranks, "program.restarts",
              "--max-restarts needs --ranks N; under a launcher, the launcher starts the job again");
  return line.ranks ? start_ranks(*line.ranks, restarts, arguments.data()) : std::nullopt;
}

int run_job(Program& program, CommandLine& line, int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  MetBy met = MetBy::all;
  try {
    if (const auto status = read_command_line(program, line, arguments)) return *status;
    met = MetBy::some;
    if (const auto status = prepare(line, arguments)) return *status;
  } catch (const std::exception& error) {
    return end_before_start(program.name, error, line.verbose, met);
  }
  try {
    Environment environment;
    JobEnd end(environment, program.name, line.verbose);
    try {
      configure_log(environment, "");
      share_cores(environment);
      const int status = line.command->run(environment);
      environment.finish();
      return status;
    } catch (const std::exception& error) {
      return end.after(error);
    }
  } catch (const std::exception& error) {
    return end_before_start(program.name, error, line.verbose, MetBy::some);
  }
}

}  // namespace

int run_program(Program& program, int argc, char** argv) {
  open_standard_streams();
  CommandLine line;
  const int status = run_job(program, line, argc, argv);
  if (status != 0) return status;  // its error has been printed
  try {
    finish_output();
    return 0;
  } catch (const std::exception& error) {
    return end_without_output(program.name, error, line.verbose);
  }
}

}  // namespace axonn
