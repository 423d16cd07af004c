#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace axonn {

// The group of flags that only an expert needs: --help leaves them out, and --help-all has them
// among the others of `group`.
std::string expert_group(std::string_view group);

// Parses the command line. Returns nothing when the program continues, or a text to print before it
// exits with status 0 (--help, --version, --help-all where flags are for experts). An unknown flag
// or subcommand is a UserError with the nearest known one.
std::optional<std::string> parse_command_line(CLI::App& app, std::span<const char* const> arguments);

// "must be from LEAST to MOST, got ..." of a flag that takes a whole number: a check of CLI11.
std::function<std::string(const std::string&)> whole_number(int64_t least = 1, int64_t most = INT32_MAX);

struct Subcommand {
  CLI::App* app;
  std::function<int()> run;  // returns the exit status
};

// Parses the command line, and runs the subcommand that it names, or `otherwise`; or prints the
// text of parse_command_line(). Returns the exit status.
int run_subcommand(CLI::App& app, std::span<const char* const> arguments, const std::vector<Subcommand>& commands,
                   const std::function<int()>& otherwise = {});

}  // namespace axonn
