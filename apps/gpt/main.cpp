#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include <CLI/CLI.hpp>
#include <c10/util/Exception.h>

#include <axonn/core/env.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/log.hpp>
#include <axonn/core/version.hpp>

#include "commands.hpp"
#include "local_job.hpp"

namespace {

struct CommandLine {
  GptOptions options;
  axonn::OptionTable table;
  std::string config;
  int64_t micro_batches = 1;  // verify
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
  auto& options = line.options;
  app.add_option("--checkpoint", options.checkpoint, "run directory (its newest checkpoint) or one checkpoint");
  app.add_option("--prompt", options.prompt, "text to go on from");
  app.add_option("--tokens", options.sampling.tokens, "how many to add");
  app.add_option("--temperature", options.sampling.temperature, "0: always the likeliest token");
  app.add_option("--top-k", options.sampling.top_k, "draw from so many of the likeliest tokens; 0: from all");
  app.add_option("--sampling-seed", options.sampling.seed, "of the draws");
  line.table.add_flags(app, {"run"});
}

void add_verify(CLI::App& app, CommandLine& line) {
  line.table.add_flags(app, {"model", "run", "train"});
  app.add_option("--config", line.config, "TOML file with the same keys");
  app.add_option("--micro-batches", line.micro_batches, "forwards a step");
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
  app.add_flag("--verbose", line.verbose, "errors say where in the code they come from");
  app.add_flag("--help-env", line.environment_table, "print the environment variables that are read");
  app.require_subcommand(0, 1);
  CLI::App& train = *app.add_subcommand("train", "train on text (the default)");
  CLI::App& generate = *app.add_subcommand("generate", "write text with a trained model");
  CLI::App& verify = *app.add_subcommand("verify", "compare a grid with one rank, tensor by tensor");
  add_train(app, line);
  add_train(train, line);
  add_generate(generate, line);
  add_verify(verify, line);
  const auto text = axonn::parse_command_line(app, {argv, static_cast<size_t>(argc)});
  if (generate.parsed()) line.command = CommandLine::Command::generate;
  if (verify.parsed()) line.command = CommandLine::Command::verify;
  return text;
}

int run(CommandLine& line, axonn::Environment& environment) {
  switch (line.command) {
    case CommandLine::Command::generate: return run_generate(environment, line.options);
    case CommandLine::Command::verify: return run_verify(environment, line.options, line.micro_batches);
    case CommandLine::Command::train: break;
  }
  return run_train(environment, line.options, line.table);
}

void print_error(const std::exception& error, bool verbose) {
  std::string text = error.what();
  if (const auto* ours = dynamic_cast<const axonn::Error*>(&error); ours != nullptr && !verbose) text = ours->sentence();
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error); torch != nullptr && !verbose) text = torch->what_without_backtrace();
  std::fflush(stdout);
  std::fprintf(stderr, "gpt: %s\n", text.c_str());
}

// Rank 0 speaks for all when every rank meets the same error; one that meets it alone waits a moment, then speaks and ends the job.
[[noreturn]] void fail(axonn::Environment& environment, const std::exception& error, bool verbose) {
  if (environment.rank() != 0) {
    sleep(2);
    std::fprintf(stderr, "[rank %d] ", environment.rank());
  }
  print_error(error, verbose);
  environment.abort(1);
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  try {
    if (const auto text = parse(line, argc, argv)) {
      std::printf("%s", text->c_str());
      return 0;
    }
    if (line.environment_table) {
      print_environment_table();
      return 0;
    }
    if (!line.config.empty()) line.table.read_toml_file(line.config);
    line.options.apply_preset(line.table);
    if (line.options.dry_run) return run_dry(line.options);
    const int64_t ranks = line.options.shape().ranks();
    if (line.command == CommandLine::Command::verify && !launched() && ranks > 1) return run_local_job(static_cast<int>(ranks), argv);
  } catch (const std::exception& error) {
    print_error(error, line.verbose);
    return 2;
  }

  try {
    axonn::Environment environment(argc, argv);
    try {
      return run(line, environment);
    } catch (const std::exception& error) {
      fail(environment, error, line.verbose);
    }
  } catch (const std::exception& error) {
    print_error(error, line.verbose);
    return 1;
  }
}
