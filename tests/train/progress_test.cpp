#include "train/report/progress.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

namespace axonn {
namespace {

ProgressState full_state() {
  return {.step = 140,
          .steps = 500,
          .loss = 2.31,
          .validation_loss = 2.4,
          .bits_per_byte = 1.2,
          .tokens_per_second = 12400,
          .utilisation = 0.41,
          .hidden = 0.87,
          .tokens = 1'200'000,
          .epoch = 0.34,
          .seconds_left = 112};
}

int columns_of(const std::string& text) {
  return static_cast<int>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

TEST(Progress, AFileGetsThePlainLine) {
  EXPECT_EQ(progress_line(full_state(), 0),
            "step 140/500  loss 2.31  val 2.40  bpb 1.20  12.4 k tok/s  41% of GEMM  comm hidden 87%  1.2 M tok  "
            "epoch 0.34  1:52 left");
}

TEST(Progress, UnknownValuesAreLeftOut) {
  EXPECT_EQ(progress_line({.step = 5, .steps = 500, .loss = 2, .tokens_per_second = 7}, 0),
            "step   5/500  loss 2.00  7 tok/s  0:00 left");
  EXPECT_EQ(progress_line({.step = 5, .steps = 500, .loss = 2, .tokens_per_second = 7, .terms = "images"}, 0),
            "step   5/500  loss 2.00  7 images/s  0:00 left");
}

TEST(Progress, ANarrowLineLosesItsLastPartsFirst) {
  const std::string line = progress_line(full_state(), 110);
  EXPECT_NE(line.find("comm hidden 87%  1.2 M tok  1:52 left"), std::string::npos) << line;
  EXPECT_NE(progress_line(full_state(), 80).find("bpb 1.20  12.4 k tok/s  1:52 left"), std::string::npos);
}

TEST(Progress, TheBarFillsTheTerminalAndIsExact) {
  const std::string line = progress_line(full_state(), 142);
  EXPECT_EQ(columns_of(line), 142);
  EXPECT_NE(line.find("█████▋              "), std::string::npos) << line;  // 20 columns * 0.28, rounded to 1/8
  ProgressState last = full_state();
  last.step = 500;
  EXPECT_NE(progress_line(last, 142).find("500/500 ████████████████████  loss"), std::string::npos)
      << progress_line(last, 142);
}

TEST(Progress, NoLineIsWiderThanItsTerminal) {
  for (int columns = 1; columns < 200; ++columns) EXPECT_LE(columns_of(progress_line(full_state(), columns)), columns);
}

TEST(Progress, ANarrowTerminalKeepsLossAndTimeLeft) {
  const std::string line = progress_line(full_state(), 80);
  EXPECT_NE(line.find("loss 2.31"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("1:52 left")) << line;
}

TEST(Progress, AFileGetsOneLineEachLogEverySteps) {
  std::ostringstream out;
  {
    Progress progress(out, {.steps = 25, .log_every = 10});
    for (int64_t step = 1; step <= 25; ++step) progress.update({.step = step}, static_cast<double>(step));
  }
  EXPECT_EQ(out.str(),
            "step 10/25  loss 0.00  0 tok/s  0:15 left\nstep 20/25  loss 0.00  0 tok/s  0:05 left\n"
            "step 25/25  loss 0.00  0 tok/s  0:00 left\n");
}

TEST(Progress, TimeLeftCountsTheStepsOfThisProcess) {
  std::ostringstream out;
  Progress progress(out, {.steps = 200, .first_step = 100, .log_every = 10});
  progress.update({.step = 110}, 20);
  EXPECT_NE(out.str().find("3:00 left"), std::string::npos) << out.str();
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
