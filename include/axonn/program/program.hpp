#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "axonn/comm/environment.hpp"

namespace CLI {
class App;
}

namespace axonn {

// How often --ranks starts a job again after the death of a rank.
struct Restarts {
  int most = 0;
  std::function<std::string()> reached = {};  // the state that a restart goes on from: other after a step forward
};

// A subcommand of a program that runs on all ranks of a job. Errors are exceptions, which rank 0
// prints in one sentence.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;  // "train"
  virtual std::string help() const = 0;
  virtual void add_flags(CLI::App& app) = 0;  // those of the first command are also flags of the program itself

  // Called after parsing, on every process, before the job starts. Errors that can be found by then
  // are thrown here (exit status 2). Returns an exit status if the process has nothing more to do.
  virtual std::optional<int> prepare(char** argv) = 0;
  virtual void set_verbose(bool) {}                 // --verbose; called before prepare()
  virtual Restarts restarts() const { return {}; }  // called after prepare()
  virtual int run(Environment& environment) = 0;    // returns the exit status
};

struct Program {
  std::string name;                                // "gpt"
  std::string about;                               // for --help
  std::vector<std::unique_ptr<Command>> commands;  // the first one runs without a subcommand
};

// main() of a program. It handles the command line with --help, --version, --verbose and
// --help-env, the environment variables, the start of the job, the log, this rank's share of the
// node's cores, and the end of the job after an error. The exit status is 0 for success, 1 for an
// error, also if the standard output could not be written, and 2 for an error in the command line
// or configuration, before the job starts.
int run_program(Program& program, int argc, char** argv);

}  // namespace axonn
