#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "axonn/comm/environment.hpp"

namespace CLI {
class App;
}

namespace axonn {

// A subcommand of a program that runs on all ranks of a job. Errors are exceptions: rank 0 tells them in one sentence.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;  // "train"
  virtual std::string help() const = 0;
  virtual void add_flags(CLI::App& app) = 0;  // the first command's go to the program itself too

  // After parsing, on every process, before anything is started: what can be wrong by then (exit status 2). An exit status is returned when
  // the process has nothing more to do.
  virtual std::optional<int> prepare(char** argv) = 0;
  virtual int run(Environment& environment) = 0;  // the exit status
};

struct Program {
  std::string name;                                // "gpt"
  std::string about;                               // for --help
  std::vector<std::unique_ptr<Command>> commands;  // without a subcommand the first one runs
};

// main() of a program: the command line with --help, --version, --verbose and --help-env, the environment variables, the job's start, the
// log, this rank's share of the node's cores, and the end of the job after an error. The exit status: 0 done; 1 an error; 2 an error in
// what was typed or configured, before anything started.
int run_program(Program& program, int argc, char** argv);

}  // namespace axonn
