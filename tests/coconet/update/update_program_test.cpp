// The rules that make a program an optimizer, and the schedules of the trainer.
#include "axonn/coconet/update/update_program.hpp"

#include <gtest/gtest.h>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/coconet/oracle/oracle.hpp"
#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/coconet/transform/program_file.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

const std::string kSgd = R"(program own
size T, K
tensor g fp32 [T, K] local
tensor w fp32 [T, K] replicated
tensor m fp32 [T, K] replicated
tensor decay fp32 [T, 1] replicated
scalar lr = 0.1
scalar momentum = 0.9
scalar max_norm = 1
sum = all_reduce(+, g)
gradient_norm = norm(sum)
scale = min(1, max_norm / gradient_norm)
m1 = update(m, momentum * m + scale * sum + decay * w)
w1 = update(w, w - lr * m1)
return w1
)";

UpdateProgram own(const std::string& text) { return UpdateProgram(parse_program(text, "own.program")); }

// The text with one line replaced.
std::string with(std::string text, const std::string& line, const std::string& other) {
  const size_t place = text.find(line + "\n");
  EXPECT_NE(place, std::string::npos) << line;
  return text.replace(place, line.size(), other);
}

TEST(UpdatePrograms, KnowTheirParts) {
  const UpdateProgram program = own(kSgd);
  EXPECT_EQ(program.gradients(), "g");
  EXPECT_EQ(program.sum(), "sum");
  EXPECT_EQ(program.weights(), "w");
  EXPECT_EQ(program.master(), "w");
  EXPECT_EQ(program.state(), std::vector<std::string>{"m"});
  EXPECT_EQ(program.settings(), std::vector<std::string>{"momentum"});
  EXPECT_TRUE(program.clips());
  EXPECT_TRUE(program.updates_after_norm());
  EXPECT_FALSE(own(with(kSgd, "scale = min(1, max_norm / gradient_norm)", "scale = 1")).updates_after_norm());
}

TEST(UpdatePrograms, RefuseWhatIsNoOptimizer) {
  const auto refused = [&](const std::string& line, const std::string& other, const std::string& rule,
                           const std::string& words) {
    EXPECT_USER_ERROR(own(with(kSgd, line, other)), "rule " + rule, words);
  };
  refused("tensor m fp32 [T, K] replicated", "tensor m fp32 [T, K] replicated\ntensor h fp32 [T, K] local",
          "update-gradient", "'g' and 'h'");
  refused("gradient_norm = norm(sum)", "gradient_norm = norm(sum)\nother = all_reduce(+, g)", "update-gradient",
          "2 statements that read 'g'");
  refused("sum = all_reduce(+, g)", "sum = all_reduce(max, g)", "update-gradient", "line 10");
  refused("m1 = update(m, momentum * m + scale * sum + decay * w)",
          "m1 = update(m, momentum * m + scale * sum + reduce_tensor(max, m, dims=[0]))", "update-shapes", "[1, K]");
  refused("return w1", "return m1, w1", "update-weights", "2 values");
  refused("return w1", "return sum", "update-weights", "line 15");
  refused("m1 = update(m, momentum * m + scale * sum + decay * w)", "m1 = momentum * m + scale * sum + decay * w",
          "update-state", "m fp32 [T, K]");
  refused("tensor decay fp32 [T, 1] replicated",
          "tensor decay fp32 [T, 1] replicated\ntensor rate fp32 [T, 1] replicated", "update-rows", "rate");
  refused("w1 = update(w, w - lr * m1)", "w1 = update(w, w - lr * dropout(m1, 0.1))", "update-operations", "line 14");
  refused("gradient_norm = norm(sum)\nscale = min(1, max_norm / gradient_norm)",
          "gradient_norm = norm(sum, dims=[1])\nscale = 1", "update-norm", "norm(sum");
  refused("scalar momentum = 0.9", "scalar momentum", "update-scalars", "'momentum'");
}

TEST(UpdatePrograms, ComputeTheNormWhereTheTextDoesNot) {
  const std::string line = "gradient_norm = norm(sum)\nscale = min(1, max_norm / gradient_norm)";
  const UpdateProgram plain = own(with(kSgd, line, "scale = 1"));
  EXPECT_EQ(plain.program().statement(kGradientNorm).expression.to_string(), "norm(sum)");
  EXPECT_FALSE(plain.updates_after_norm());
  const UpdateProgram scaled = own(with(kSgd, line, "scalar unscale = 1\nscale = unscale"));
  EXPECT_EQ(scaled.program().written(scaled.program().statement(kGradientNorm).expression), "unscale * norm(sum)");
}

TEST(UpdatePrograms, BeginStateWithANumberOrTheWeights) {
  const std::string m = "tensor m fp32 [T, K] replicated";
  EXPECT_TRUE(own(kSgd).starts().empty());
  const UpdateProgram half = own(with(kSgd, m, m + " = 0.5")), copy = own(with(kSgd, m, m + " = w"));
  ASSERT_EQ(half.starts().size(), 1U);
  EXPECT_EQ(half.starts()[0].value, 0.5);
  ASSERT_EQ(copy.starts().size(), 1U);
  EXPECT_EQ(copy.starts()[0].tensor, "m");
  EXPECT_FALSE(copy.starts()[0].value);
  EXPECT_EQ(parse_program(to_text(copy.program()), "again"), copy.program());
  const UpdateProgram rounded = copy.with_types(ElementType::bf16, ElementType::bf16, ElementType::fp32);
  EXPECT_EQ(rounded.starts().size(), 1U);  // the master weights' copy
  for (const auto& [line, words] : {std::pair("tensor w fp32 [T, K] replicated", "w = 0.5"),
                                    {"tensor g fp32 [T, K] local", "g = 0.5"},
                                    {"tensor decay fp32 [T, 1] replicated", "decay = 0.5"}})
    EXPECT_USER_ERROR(own(with(kSgd, line, std::string(line) + " = 0.5")), "rule update-start", words);
  EXPECT_USER_ERROR(own(with(kSgd, m, m + " = g")), "rule update-start", "m = g");
}

TEST(UpdatePrograms, ErrorsNameWhatTheTextHas) {
  const std::string line = "w1 = update(w, w - lr * m1)";
  EXPECT_USER_ERROR(own(with(kSgd, line, "w1 = update(w, w - lr * m1 * reduce_tensor(+, m1, dims=[1]))")),
                    "own.program: w1 = update(w, w - lr * m1 * reduce_tensor(+, m1, dims=[1])), line 14",
                    "fp64 [T, 1]");
  EXPECT_USER_ERROR(own(with(kSgd, line, "w1 = update(w, w - lr * m1 * cast(reduce_tensor(+, m1, dims=[0]), fp32))")),
                    "reduce_tensor(+, m1, dims=[0]) fp64 [1, K]");
}

TEST(UpdatePrograms, SchedulesAreEqual) {
  UpdateProgram program = own(kSgd);
  const std::vector<UpdateProgram> variants = {
      program, program.with_average(), program.without_factor(),
      program.with_types(ElementType::bf16, ElementType::bf16, ElementType::fp32),
      program.with_average().with_types(ElementType::fp16, ElementType::fp32, ElementType::fp32)};
  for (const UpdateProgram& variant : variants)
    for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
      const Schedule made = variant.scheduled(schedule);
      for (const int ranks : {1, 2, 4}) {
        const OracleOptions options{.ranks = ranks, .sizes = {{"T", 3}, {"K", 8}}, .scalars = {}};
        const OracleInputs inputs = random_inputs(variant.program(), options, /*seed=*/1);
        EXPECT_EQ(difference(run_oracle(variant.program(), inputs, options),
                             run_oracle(made.program(), inputs, options), 1e-12),
                  "")
            << name << " of " << to_text(variant.program());
      }
      EXPECT_NO_THROW(SchedulePlan{made.program()}) << to_text(made.program());
    }
}

PlanCounts counts_of(const UpdateProgram& program, UpdateSchedule schedule, int ranks) {
  return SchedulePlan(program.scheduled(schedule).program()).counts({{"T", 1}, {"K", int64_t{1} << 20}}, ranks);
}

// AdamW as it is shipped, per element: bytes of memory, bytes sent, bytes of state.
TEST(UpdatePrograms, AdamWMovesTheBytesOfThePaper) {
  const UpdateProgram clipped(load_program_file(std::string(AXONN_PROGRAMS) + "/adamw.program").program),
      unclipped = clipped.without_factor(),
      rounded = clipped.with_types(ElementType::bf16, ElementType::fp32, ElementType::fp32);
  constexpr double kElements = 1 << 20;
  for (const int ranks : {2, 4, 8}) {
    const double r = ranks, all_reduce = 2 * (r - 1) / r * 4;
    const auto expect = [&](const UpdateProgram& program, UpdateSchedule schedule, double memory, double sent,
                            double state) {
      const PlanCounts counts = counts_of(program, schedule, ranks);
      EXPECT_NEAR(counts.memory_bytes / kElements, memory, 1e-3) << to_string(schedule) << " on " << ranks;
      EXPECT_NEAR(counts.bytes_sent / kElements, sent, 1e-3) << to_string(schedule) << " on " << ranks;
      EXPECT_NEAR(counts.state_bytes / kElements, state, 1e-3) << to_string(schedule) << " on " << ranks;
    };
    expect(clipped, UpdateSchedule::ar_opt, 36 + 4, all_reduce, 12);  // 4: the norm reads the sums
    expect(clipped, UpdateSchedule::fuse, 4 + 32 / r + 4 * (r - 1) / r, all_reduce, 4 + 8 / r);
    expect(unclipped, UpdateSchedule::fuse, 4 + 24 / r + 4 * (r - 1) / r, all_reduce, 4 + 8 / r);
    // bf16 weights are gathered; fp32 master weights and moments are divided.
    expect(rounded, UpdateSchedule::fuse, 4 + 34 / r + 2 * (r - 1) / r, 0.75 * all_reduce, 2 + 12 / r);
  }
}

TEST(UpdatePrograms, SchedulesAreThePapers) {
  const UpdateProgram program = own(kSgd);
  EXPECT_EQ(to_text(program.scheduled(UpdateSchedule::fuse).log()), R"(split(sum, reduce_scatter, dim=1)
reorder(sum, gradient_norm, m1, w1)
as_slice(m)
dead(m1.whole)
fuse(pass1, sum.part, gradient_norm.part)
fuse(pass2, m1.part, m1, w1.part, w1.whole, w1)
)");
  EXPECT_EQ(to_text(program.without_factor().scheduled(UpdateSchedule::fuse).log()),
            R"(split(sum, reduce_scatter, dim=1)
reorder(sum, gradient_norm, m1, w1)
as_slice(m)
dead(m1.whole)
fuse(pass1, sum.part, gradient_norm.part, m1.part, m1, w1.part, w1.whole, w1)
)");
}

}  // namespace
}  // namespace axonn::coconet
