#pragma once

#include <string>
#include <string_view>

#include "axonn/core/error.hpp"

namespace axonn::log {

enum class Level { debug, info, warn, error, off };

struct Options {
  Level level = Level::info;
  int rank = 0;
  int ranks = 1;
  std::string grid;        // this rank's coordinate as text, e.g. "x0 y1 z0 d0"; empty before a grid exists
  bool all_ranks = false;  // false: only rank 0 writes lines below `error`
};

// Lines go to standard error as "[level rank/ranks coordinate] text". Call it again when the rank
// or the coordinate becomes known. Process-wide: when ranks are threads of one process, the last
// call counts.
void configure(const Options& options);
Level parse_level(std::string_view name);  // throws UserError with the nearest name
void write(Level level, const std::string& line);

template <typename... Parts>
void debug(const Parts&... parts) {
  write(Level::debug, detail::concatenate(parts...));
}
template <typename... Parts>
void info(const Parts&... parts) {
  write(Level::info, detail::concatenate(parts...));
}
template <typename... Parts>
void warn(const Parts&... parts) {
  write(Level::warn, detail::concatenate(parts...));
}
template <typename... Parts>
void error(const Parts&... parts) {
  write(Level::error, detail::concatenate(parts...));
}

}  // namespace axonn::log
