#include "axonn/core/log.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

std::string written(const log::Options& options, log::Level level) {
  testing::internal::CaptureStderr();
  log::configure(options);
  log::write(level, "text");
  log::configure({});
  return testing::internal::GetCapturedStderr();
}

TEST(LogLevel, IsParsedByName) {
  EXPECT_EQ(log::parse_level("debug"), log::Level::debug);
  EXPECT_EQ(log::parse_level("off"), log::Level::off);
  try {
    log::parse_level("wran");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_EQ(error.sentence(), "unknown log level 'wran'; did you mean 'warn'?");
  }
}

TEST(Log, LinesCarryRankAndCoordinate) {
  EXPECT_EQ(written({}, log::Level::info), "[info] text\n");
  EXPECT_EQ(written({.rank = 0, .ranks = 4, .grid = "x0 y0 z0 d0"}, log::Level::info), "[info 0/4 x0 y0 z0 d0] text\n");
}

TEST(Log, RankZeroAloneWritesBelowError) {
  EXPECT_EQ(written({.rank = 1, .ranks = 4}, log::Level::warn), "");
  EXPECT_EQ(written({.rank = 1, .ranks = 4}, log::Level::error), "[error 1/4] text\n");
  EXPECT_EQ(written({.rank = 1, .ranks = 4, .all_ranks = true}, log::Level::info), "[info 1/4] text\n");
}

TEST(Log, LevelsBelowTheLeastAreLeftOut) {
  EXPECT_EQ(written({.level = log::Level::warn}, log::Level::info), "");
  EXPECT_EQ(written({.level = log::Level::debug}, log::Level::debug), "[debug] text\n");
  EXPECT_EQ(written({.level = log::Level::off}, log::Level::error), "");
}

}  // namespace
}  // namespace axonn
