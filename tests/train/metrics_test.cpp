#include "train/report/metrics.hpp"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch;

void write_steps(const std::filesystem::path& path, int64_t first, int64_t last, std::optional<int64_t> resumed = {}) {
  MetricsWriter writer(path, resumed);
  for (int64_t step = first; step <= last; ++step)
    writer.write(StepMetrics{.step = step, .loss = 1.0 / static_cast<double>(step)}.to_json());
}

std::vector<int64_t> steps_in(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  std::istringstream in(test::read(path));
  for (std::string line; std::getline(in, line);) steps.push_back(nlohmann::json::parse(line)["step"]);
  return steps;
}

TEST(Metrics, ALineHoldsEveryKeyThatWasMeasured) {
  const StepMetrics metrics{
      .step = 3,
      .tokens = 6144,
      .epoch = 0.25,
      .loss = 2.5,
      .validation_loss = 2.25,
      .bits_per_byte = 1.125,
      .gradient_norm = 0.5,
      .learning_rate = 1e-3,
      .tokens_per_second = 100,
      .model_flops_per_second = 1e9,
      .paper_flops_per_second = 1.5e9,
      .utilisation = 0.5,
      .peak_memory_bytes = 4096,
      .seconds = {.step = 1,
                  .forward = 3,
                  .backward = 4,
                  .communication_exposed = 5,
                  .optimizer = 6,
                  .checkpoint = 7,
                  .validation = 8,
                  .run = 9},
      .communication = {
          {{}, {}, {.collectives = 2, .bytes = 64, .exposed_seconds = 0.25, .hidden_seconds = 0.75}, {}}}};
  EXPECT_EQ(metrics.to_json(),
            R"({"step":3,"tokens":6144,"epoch":0.25,"loss":2.5,"validation_loss":2.25,)"
            R"("validation_bits_per_byte":1.125,"gradient_norm":0.5,"learning_rate":0.001,)"
            R"("tokens_per_second":100.0,"model_flops_per_second":1000000000.0,"paper_flops_per_second":1500000000.0,)"
            R"("utilisation":0.5,"hidden_share":0.75,"peak_memory_bytes":4096,)"
            R"("seconds":{"step":1.0,"forward":3.0,"backward":4.0,)"
            R"("communication_exposed":5.0,"optimizer":6.0,"checkpoint":7.0,"validation":8.0,"run":9.0},)"
            R"("communication":{"reduce_scatter":{"collectives":2,"bytes":64,)"
            R"("exposed_seconds":0.25,"hidden_seconds":0.75}},"optimizer_schedule":"ar-opt"})");
  EXPECT_EQ(metrics.hidden(), 0.75);
  EXPECT_TRUE(StepMetrics{.optimizer_settings = "segment=16384"}.to_json().ends_with(
      R"("optimizer_schedule":"ar-opt","optimizer_settings":"segment=16384"})"));
  EXPECT_TRUE(StepMetrics{.straggler = "rank 1 is slow"}.to_json().ends_with(R"(,"straggler":"rank 1 is slow"})"));
}

TEST(Metrics, WhatIsNotMeasuredIsLeftOutAndWhatIsNotFiniteIsNull) {
  const auto line = nlohmann::json::parse(StepMetrics{.step = 1, .loss = std::nan("")}.to_json());
  EXPECT_FALSE(line.contains("validation_loss"));
  EXPECT_FALSE(line.contains("utilisation"));
  EXPECT_TRUE(line["loss"].is_null());
}

TEST(Metrics, EveryLineIsInTheFileAtOnce) {
  Scratch scratch;
  MetricsWriter writer(scratch / "run/metrics.jsonl");
  writer.write(StepMetrics{.step = 1}.to_json());
  EXPECT_EQ(steps_in(scratch / "run/metrics.jsonl"), (std::vector<int64_t>{1}));
}

TEST(Metrics, ResumingCutsOffLaterStepsAndAHalfWrittenLine) {
  Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  write_steps(path, 1, 5);
  std::ofstream(path, std::ios::app) << R"({"step":6,"lo)";
  write_steps(path, 4, 6, /*resumed=*/3);
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  write_steps(path, 1, 2, /*resumed=*/0);
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{1, 2}));
}

TEST(Metrics, AResumedRunKnowsTheLeastLossesOfItsLines) {
  Scratch scratch;
  const auto path = scratch / "metrics.jsonl";
  {
    MetricsWriter writer(path);
    EXPECT_EQ(writer.kept().best(), std::nullopt);
    writer.write(StepMetrics{.step = 1, .loss = 4, .validation_loss = 3.5}.to_json());
    writer.write(StepMetrics{.step = 2, .loss = std::nan("")}.to_json());
    writer.write(StepMetrics{.step = 3, .loss = 2, .validation_loss = 2.5}.to_json());
    writer.write(StepMetrics{.step = 4, .loss = 3, .validation_loss = 3}.to_json());
    writer.write(StepMetrics{.step = 5, .loss = 1, .validation_loss = 1.5}.to_json());
  }
  const LeastLosses kept = MetricsWriter(path, /*resumed=*/4).kept();
  EXPECT_EQ(kept.loss, 2);
  EXPECT_EQ(kept.validation_loss, 2.5);
  EXPECT_EQ(kept.best(), 2.5);
}

TEST(LeastLosses, TheBestOneIsHeldOutAsSoonAsThereIsOne) {
  LeastLosses least;
  least.add(std::nan(""), std::nullopt);
  EXPECT_EQ(least.best(), std::nullopt);
  least.add(2, std::nullopt);
  least.add(3, std::nullopt);
  EXPECT_EQ(least.best(), 2);
  least.add(1, 2.5);
  least.add(1, 2.75);
  EXPECT_EQ(least.best(), 2.5);
}

TEST(Metrics, ANewRunDoesNotOverwriteAnother) {
  Scratch scratch;
  write_steps(scratch / "metrics.jsonl", 1, 2);
  EXPECT_USER_ERROR(MetricsWriter(scratch / "metrics.jsonl"), "not overwritten");
  EXPECT_EQ(steps_in(scratch / "metrics.jsonl").size(), 2u);
}

}  // namespace
}  // namespace axonn
