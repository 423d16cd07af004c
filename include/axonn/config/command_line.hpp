#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace axonn {

// Parses the command line. Nothing: go on. A text: print it and end with status 0 (--help, --version). What the program does not know is a
// UserError with the nearest flag or subcommand.
std::optional<std::string> parse_command_line(CLI::App& app, std::span<const char* const> arguments);

}  // namespace axonn
