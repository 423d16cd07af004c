#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace axonn {

// Parses the command line. Returns nothing when the program continues, or a text to print before it
// exits with status 0 (--help, --version). An unknown flag or subcommand is a UserError with the
// nearest known one.
std::optional<std::string> parse_command_line(CLI::App& app, std::span<const char* const> arguments);

}  // namespace axonn
