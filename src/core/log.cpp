#include "axonn/core/log.hpp"

#include <array>
#include <memory>
#include <mutex>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn::log {
namespace {

constexpr std::array<std::string_view, 5> kLevels = {"debug", "info", "warn", "error", "off"};

spdlog::level::level_enum to_spdlog(Level level) {
  constexpr std::array map = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err,
                              spdlog::level::off};
  return map.at(static_cast<size_t>(level));
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("axonn", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("[%l] %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void configure(const Options& options) {
  const bool quiet = options.rank != 0 && !options.all_ranks && options.level < Level::error;
  logger().set_level(to_spdlog(quiet ? Level::error : options.level));
  std::string pattern = "[%l";
  if (options.ranks > 1) pattern += detail::concatenate(" ", options.rank, "/", options.ranks);
  if (!options.grid.empty()) pattern += " " + options.grid;
  logger().set_pattern(pattern + "] %v");
}

Level parse_level(std::string_view name) {
  for (size_t i = 0; i < kLevels.size(); ++i)
    if (kLevels[i] == name) return static_cast<Level>(i);
  throw UserError("core.log", detail::concatenate("unknown log level '", name, "'", did_you_mean(name, kLevels)));
}

void write(Level level, const std::string& line) { logger().log(to_spdlog(level), printable(line)); }

}  // namespace axonn::log
