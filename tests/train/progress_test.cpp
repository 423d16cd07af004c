#include "train/report/progress.hpp"

#include <algorithm>
#include <ctime>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/text.hpp"

namespace axonn {
namespace {

ProgressState full_state() {
  return {.step = 140,
          .steps = 500,
          .loss = 2.31,
          .validation_loss = 2.4,
          .best_loss = 2.38,
          .bits_per_byte = 1.2,
          .tokens_per_second = 12400,
          .utilisation = 0.41,
          .hidden = 0.87,
          .tokens = 1'200'000,
          .epoch = 0.34,
          .seconds_left = 112,
          .end = "14:05"};
}

int columns_of(const std::string& text) {
  return static_cast<int>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Without the hour of the end, which no test knows.
std::string without_end(const std::string& text) {
  return std::regex_replace(text, std::regex("  ends ([0-9]{2} [A-Z][a-z]{2} )?[0-9]{2}:[0-9]{2}"), "");
}

TEST(Progress, AFileGetsThePlainLine) {
  EXPECT_EQ(progress_line(full_state(), 0),
            "step 140/500  loss 2.31  val 2.40  best 2.38  bpb 1.20  12.4 k tok/s  1.2 M tok  epoch 0.34  41% of GEMM  "
            "comm hidden 87%  1:52 left  ends 14:05");
}

TEST(Progress, UnknownValuesAreLeftOut) {
  EXPECT_EQ(progress_line({.step = 5, .steps = 500, .loss = 2, .tokens_per_second = 7}, 0),
            "step   5/500  loss 2.00  7 tok/s  0:00 left");
  EXPECT_EQ(progress_line({.step = 5, .steps = 500, .loss = 2, .tokens_per_second = 7, .terms = "images"}, 0),
            "step   5/500  loss 2.00  7 images/s  0:00 left");
}

TEST(Progress, ANarrowLineLosesItsPartsInTheirOrder) {
  std::vector<std::string> left = {"epoch", "hidden", "GEMM", "bpb", "M tok", "best", "ends"};
  for (int columns = 200; columns >= 67; --columns) {
    const std::string line = progress_line(full_state(), columns);
    while (!left.empty() && line.find(left.front()) == std::string::npos) left.erase(left.begin());
    for (const std::string& part : left) EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
    EXPECT_NE(line.find("█"), std::string::npos) << line;  // a bar before all of them
  }
  EXPECT_TRUE(left.empty()) << left.front();
}

TEST(Progress, TheBarFillsTheTerminalAndIsExact) {
  const int columns = columns_of(progress_line(full_state(), 0)) + 1 + 20;
  const std::string line = progress_line(full_state(), columns);
  EXPECT_EQ(columns_of(line), columns);
  EXPECT_NE(line.find("█████▋              "), std::string::npos) << line;  // 20 columns * 0.28, rounded to 1/8
  ProgressState last = full_state();
  last.step = 500;
  EXPECT_NE(progress_line(last, columns).find("500/500 ████████████████████  loss"), std::string::npos)
      << progress_line(last, columns);
}

TEST(Progress, NoLineIsWiderThanItsTerminal) {
  for (int columns = 1; columns < 200; ++columns) EXPECT_LE(columns_of(progress_line(full_state(), columns)), columns);
}

TEST(Progress, ANarrowTerminalKeepsLossSpeedAndTimeLeft) {
  EXPECT_EQ(progress_line(full_state(), 60), "step 140/500  loss 2.31  val 2.40  12.4 k tok/s  1:52 left");
}

TEST(Progress, AFileGetsOneLineEachLogEverySteps) {
  std::ostringstream out;
  {
    Progress progress(out, {.steps = 25, .log_every = 10});
    for (int64_t step = 1; step <= 25; ++step) progress.update({.step = step}, static_cast<double>(step));
  }
  EXPECT_EQ(without_end(out.str()),
            "step 10/25  loss 0.00  0 tok/s  0:15 left\nstep 20/25  loss 0.00  0 tok/s  0:05 left\n"
            "step 25/25  loss 0.00  0 tok/s  0:00 left\n");
}

TEST(Progress, AFileGetsALineEveryFiveSeconds) {
  std::ostringstream out;
  Progress progress(out, {.steps = 1000});
  for (int64_t step = 1; step < 1000; ++step) progress.update({.step = step}, 0.0625 * static_cast<double>(step));
  const std::string text = out.str();
  EXPECT_EQ(std::ranges::count(text, '\n'), 12);  // in 62 seconds
  EXPECT_TRUE(text.starts_with("step   80/1000 ")) << text;
  progress.update({.step = 1000}, 62.5);  // the last one is always told
  EXPECT_NE(out.str().find("\nstep 1000/1000 "), std::string::npos) << out.str();
}

TEST(Progress, SlowStepsHaveALineEach) {
  std::ostringstream out;
  Progress progress(out, {.steps = 1000, .first_step = 500});
  for (int64_t step = 501; step <= 503; ++step) progress.update({.step = step}, 60 * static_cast<double>(step - 500));
  const std::string text = out.str();
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
}

TEST(Progress, TimeLeftCountsTheStepsOfThisProcess) {
  std::ostringstream out;
  Progress progress(out, {.steps = 200, .first_step = 100, .log_every = 10});
  progress.update({.step = 110}, 20);
  EXPECT_NE(out.str().find("3:00 left  ends "), std::string::npos) << out.str();
}

TEST(Progress, TheEndIsTheTimeLeftFromNow) {
  std::ostringstream out;
  Progress progress(out, {.steps = 3, .log_every = 1});
  const std::time_t begin = std::time(nullptr);
  progress.update({.step = 1}, 5 * 86400);  // ten days left, so the line has a day
  std::set<std::string> ends;               // one for every second in which the line may be written
  for (std::time_t now = begin; now <= std::time(nullptr); ++now)
    ends.insert("  240:00:00 left  ends " + clock_text(now + 10 * 86400, now) + "\n");
  EXPECT_TRUE(std::ranges::any_of(ends, [&](const auto& end) { return out.str().ends_with(end); })) << out.str();
  progress.update({.step = 3}, 15 * 86400);
  EXPECT_TRUE(out.str().ends_with("0:00 left\n")) << out.str();
}

TEST(Progress, TimeLeftEndsWithTheTimeThatARunMayTake) {
  std::ostringstream out;
  Progress progress(out, {.steps = 1000, .log_every = 1, .most_seconds = 120});
  progress.update({.step = 10}, 60);
  EXPECT_NE(out.str().find("1:00 left"), std::string::npos) << out.str();
}

TEST(Progress, ATerminalIsRedrawnInPlaceAndEndsWithOneLine) {
  std::ostringstream out;
  {
    Progress progress(out, {.steps = 3, .terminal = true, .columns = 60});
    progress.update({.step = 1}, 1);
    progress.update({.step = 2}, 1.01);  // too soon after the first
    progress.update({.step = 3}, 1.02);  // the last one is always drawn
  }
  const std::string text = out.str();
  EXPECT_EQ(std::ranges::count(text, '\r'), 2);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_EQ(text.find("step 2/3"), std::string::npos);
}

TEST(Progress, ClearTakesTheLineAway) {
  std::ostringstream out;
  Progress progress(out, {.steps = 3, .terminal = true});
  progress.clear();
  EXPECT_EQ(out.str(), "");
  progress.update({.step = 1}, 1);
  progress.clear();
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace axonn
