#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/oracle/oracle_settings.hpp"
#include "coconet/support/figures.hpp"
#include "support/user_error.hpp"

// CoCoNet's figures: default forms beside schedules that are written by hand.
namespace axonn::coconet::test {
namespace {

using enum ElementType;
constexpr double kTolerance = 1e-12;

// All programs give the same on any ranks, cut and blocks.
void expect_equal(const OracleOptions& base, const std::vector<Program>& programs) {
  for_each_setting(base, [&](OracleOptions options) {
    const OracleInputs inputs = random_inputs(programs[0], options, 7);
    const OracleResult expected = run_oracle(programs[0], inputs, options);
    EXPECT_EQ(difference(expected, expected, 0), "");
    for (size_t i = 1; i < programs.size(); ++i)
      for (const int blocks : {1, 3, 5})
        for (const uint64_t order : {0, 1}) {
          options.blocks = blocks;
          options.order = order;
          EXPECT_EQ(difference(expected, run_oracle(programs[i], inputs, options), kTolerance), "")
              << programs[i].name() << " " << i << ", blocks " << blocks << ", order " << order;
        }
  });
}

struct AdamParts {
  ProgramBuilder p;
  Expression g, w, m, v, rate, beta1, beta2, step;

  AdamParts(const std::string& name, const Shape& shape, Distribution state)
      : p(name),
        g(p.tensor("g", fp32, shape, Distribution::local())),
        w(p.tensor("w", fp32, shape)),
        m(p.tensor("m", fp32, shape, state)),
        v(p.tensor("v", fp32, shape, state)),
        rate(p.scalar("lr", 0.1)),
        beta1(p.scalar("beta1", 0.9)),
        beta2(p.scalar("beta2", 0.99)),
        step(p.scalar("step")) {}

  // The direction of the step; m1 and v1 become statements.
  Expression direction(const Expression& sum) {
    const auto m1 = p.let("m1", update(m, beta1 * m + (1 - beta1) * sum)),
               v1 = p.let("v1", update(v, beta2 * v + (1 - beta2) * sum * sum));
    return (m1 / (1 - pow(beta1, step))) / (sqrt(v1 / (1 - pow(beta2, step))) + 1e-8);
  }
};

Program adam() {
  AdamParts a("adam", {"N"}, Distribution::replicated());
  const auto sum = a.p.let("sum", all_reduce(ReduceOp::sum, a.g));
  return a.p.returns({a.p.let("w1", update(a.w, a.w - a.rate * a.direction(sum)))});
}

// Reduce-scatter, slices of the update, all-gather.
Program sliced_adam() {
  AdamParts a("sliced_adam", {"N"}, Distribution::sliced(0));
  const auto part = a.p.let("part", reduce_scatter(ReduceOp::sum, a.g));
  const auto own = a.p.let("own", slice(a.w) - a.rate * a.direction(part));
  return a.p.returns({a.p.let("w1", update(a.w, a.p.let("all", all_gather(own))))});
}

TEST(OracleSchedules, Adam) {
  const Program whole_update = adam(), slices = sliced_adam();
  expect_equal(
      {.sizes = {{"N", 7}}, .scalars = {{"step", 3}}},
      {whole_update, slices, with_sections(whole_update, {fuse("opt", {"m1", "v1", "w1"})}),
       with_sections(whole_update, {fuse("fused", {"sum", "m1", "v1", "w1"})}),
       with_sections(slices, {fuse("fused", {"part", "m1", "v1", "own", "all", "w1"})}),
       with_sections(slices, {fuse("opt", {"m1", "v1", "own"}), overlapped("pipe", {"part", "opt", "all", "w1"})})});
}

TEST(OracleSchedules, AdamByPlainLoops) {
  const Program program = adam();
  const OracleOptions options = {.ranks = 3, .sizes = {{"N", 7}}, .scalars = {{"step", 3}}};
  const OracleInputs inputs = random_inputs(program, options, 9);
  const OracleResult result = run_oracle(program, inputs, options);
  for (size_t i = 0; i < 7; ++i) {
    double g = 0;
    for (const std::vector<double>& part : inputs.at("g")) g += part[i];
    const double m = 0.9 * inputs.at("m")[0][i] + (1 - 0.9) * g, v = 0.99 * inputs.at("v")[0][i] + (1 - 0.99) * g * g;
    const double direction = m / (1 - 0.9 * 0.9 * 0.9) / (std::sqrt(v / (1 - 0.99 * 0.99 * 0.99)) + 1e-8);
    EXPECT_NEAR(result.states.at("m").parts[0][i], m, 1e-14);
    EXPECT_NEAR(result.states.at("v").parts[0][i], v, 1e-14);
    EXPECT_NEAR(result.states.at("w").parts[0][i], inputs.at("w")[0][i] - 0.1 * direction, 1e-14);
    EXPECT_EQ(result.outputs.at("w1").parts[0][i], result.states.at("w").parts[0][i]);
  }
}

TEST(OracleSchedules, ClippedSgd) {
  const auto factor = [](const Expression& length) { return Expression::of(Operation::minimum, {1, 2 / length}); };
  ProgramBuilder a("clipped"), b("sliced_clipped");
  const auto declare = [](ProgramBuilder& p) {
    return std::pair(p.tensor("g", fp32, {"N"}, Distribution::local()), p.tensor("w", fp32, {"N"}));
  };
  const auto [g, w] = declare(a);
  const auto sum = a.let("sum", all_reduce(ReduceOp::sum, g)), length = a.let("length", norm(sum));
  const Program whole_update = a.returns({a.let("w1", update(w, w - 0.1 * factor(length) * sum))});
  const auto [h, x] = declare(b);
  const auto part = b.let("part", reduce_scatter(ReduceOp::sum, h)),
             squares = b.let("squares", reduce_tensor(ReduceOp::sum, part * part)),
             all = b.let("length", sqrt(b.let("total", all_reduce(ReduceOp::sum, squares)))),
             own = b.let("own", slice(x) - 0.1 * factor(all) * part);
  const Program slices = b.returns({b.let("w1", update(x, b.let("all", all_gather(own))))});
  expect_equal({.sizes = {{"N", 7}}},
               {whole_update, slices, with_sections(whole_update, {fuse("a", {"sum", "length"})}),
                with_sections(slices, {fuse("a", {"part", "squares"}), fuse("b", {"own", "all", "w1"})})});
}

// One trust ratio per row of [T, K].
struct Lamb : AdamParts {
  Lamb(const std::string& name, Distribution state) : AdamParts(name, {"T", "K"}, state) {}

  static Expression ratio(const Expression& weights, const Expression& directions) {
    return cast(select(less(0, directions), weights / directions, 1), fp32);
  }
};

Program lamb() {
  Lamb a("lamb", Distribution::replicated());
  const auto sum = a.p.let("sum", all_reduce(ReduceOp::sum, a.g));
  const auto r = a.p.let("r", a.direction(sum) + 0.01 * a.w);
  const auto weights = a.p.let("weights", norm(a.w, {1})), directions = a.p.let("directions", norm(r, {1}));
  return a.p.returns({a.p.let("w1", update(a.w, a.w - a.rate * Lamb::ratio(weights, directions) * r))});
}

// Slices of K cut the rows that the norms sum.
Program lamb_in_columns() {
  Lamb a("lamb_in_columns", Distribution::sliced(1));
  const auto part = a.p.let("part", reduce_scatter(ReduceOp::sum, a.g, 1));
  const auto r = a.p.let("r", a.direction(part) + 0.01 * slice(a.w, 1));
  const auto squares = a.p.let("squares", reduce_tensor(ReduceOp::sum, r * r, {1}));
  const auto directions = a.p.let("directions", sqrt(a.p.let("total", all_reduce(ReduceOp::sum, squares)))),
             weights = a.p.let("weights", norm(a.w, {1}));
  const auto own = a.p.let("own", slice(a.w, 1) - a.rate * Lamb::ratio(weights, directions) * r);
  return a.p.returns({a.p.let("w1", update(a.w, a.p.let("all", all_gather(own))))});
}

Program lamb_in_rows() {
  Lamb a("lamb_in_rows", Distribution::sliced(0));
  const auto part = a.p.let("part", reduce_scatter(ReduceOp::sum, a.g, 0));
  const auto r = a.p.let("r", a.direction(part) + 0.01 * slice(a.w));
  const auto directions = a.p.let("directions", norm(r, {1})), weights = a.p.let("weights", norm(slice(a.w), {1}));
  const auto own = a.p.let("own", slice(a.w) - a.rate * Lamb::ratio(weights, directions) * r);
  return a.p.returns({a.p.let("w1", update(a.w, a.p.let("all", all_gather(own))))});
}

TEST(OracleSchedules, Lamb) {
  const Program columns = lamb_in_columns(), rows = lamb_in_rows();
  expect_equal(
      {.sizes = {{"T", 5}, {"K", 7}}, .scalars = {{"step", 2}}},
      {lamb(), columns, rows,
       with_sections(columns, {fuse("a", {"part", "m1", "v1", "r", "squares"}), fuse("b", {"own", "all", "w1"})}),
       with_sections(rows,
                     {fuse("a", {"part", "m1", "v1", "r", "directions"}), overlapped("b", {"own", "all", "w1"})})});
}

struct AttentionParts {
  ProgramBuilder p;
  Expression x, w, bias, residual;

  AttentionParts(const std::string& name, int groups = 1)
      : p(name, groups),
        x(p.tensor("x", fp32, {"B", "S", "H"}, Distribution::sliced(2))),
        w(p.tensor("w", fp32, {"H", "H"}, Distribution::sliced(0))),
        bias(p.tensor("bias", fp32, {"H"})),
        residual(p.tensor("residual", fp32, {"B", "S", "H"})) {}
};

Program attention() {
  AttentionParts a("attention");
  const auto sum = a.p.let("sum", all_reduce(ReduceOp::sum, a.p.let("y", matmul(a.x, a.w))));
  return a.p.returns({a.p.let("out", dropout(sum + a.bias, 0.3) + a.residual)});
}

Program sliced_attention() {
  AttentionParts a("sliced_attention");
  const auto part = a.p.let("part", reduce_scatter(ReduceOp::sum, a.p.let("y", matmul(a.x, a.w)), 2));
  const auto own = a.p.let("own", dropout(part + slice(a.bias), 0.3) + slice(a.residual, 2));
  return a.p.returns({a.p.let("out", all_gather(own))});
}

const OracleOptions kAttention = {.sizes = {{"B", 2}, {"S", 3}, {"H", 7}}, .seed = 21, .step = 4};

TEST(OracleSchedules, SelfAttention) {
  const Program whole_sum = attention(), slices = sliced_attention();
  expect_equal(kAttention,
               {whole_sum, slices, with_sections(whole_sum, {overlapped("pipe", {"y", "sum", "out"})}),
                with_sections(whole_sum, {fuse("f", {"sum", "out"}), overlapped("pipe", {"y", "f"})}),
                with_sections(slices, {fuse("f", {"part", "own", "out"})}),
                with_sections(slices, {fuse("f", {"part", "own", "out"}), overlapped("pipe", {"y", "f"})})});
}

Program border() {
  AttentionParts a("border", 2);
  const auto next = a.p.tensor("next", fp32, {"H"}, Distribution::replicated(), 1);
  const auto sum = a.p.let("sum", all_reduce(ReduceOp::sum, a.p.let("y", matmul(a.x, a.w))));
  const auto c = a.p.let("c", dropout(sum + a.bias, 0.3) + a.residual);
  return a.p.returns({a.p.let("out", a.p.let("moved", send(c)) * next)});
}

// Every rank sends its slice; the other group gathers.
Program sliced_border() {
  AttentionParts a("sliced_border", 2);
  const auto next = a.p.tensor("next", fp32, {"H"}, Distribution::replicated(), 1);
  const auto part = a.p.let("part", reduce_scatter(ReduceOp::sum, a.p.let("y", matmul(a.x, a.w)), 1));
  const auto c = a.p.let("c", dropout(part + a.bias, 0.3) + slice(a.residual, 1));
  const auto moved = a.p.let("moved", send(c));
  return a.p.returns({a.p.let("out", a.p.let("all", all_gather(moved)) * next)});
}

TEST(OracleSchedules, BorderBetweenGroups) {
  const Program whole_sum = border(), slices = sliced_border();
  // dropout counts the same elements in both: `c` has the same shape.
  expect_equal(kAttention,
               {whole_sum, slices, with_sections(slices, {fuse("f", {"part", "c", "moved"})}),
                with_sections(slices, {overlapped("pipe", {"part", "c", "moved", "all", "out"})}),
                with_sections(slices, {fuse("f", {"part", "c", "moved"}), overlapped("pipe", {"f", "all", "out"})})});
}

TEST(OracleSchedules, MadeByTransformations) {
  const OracleOptions options = {.sizes = {{"N", 7}}, .scalars = {{"step", 3}}};
  expect_equal(options, {figures::adam(), figures::ar_opt().program(), figures::rs_opt_ag().program(),
                         figures::fuse_rs_opt_ag().program()});
  expect_equal({.sizes = {{"N", 7}}}, {figures::clipped_adam(), figures::clipped_fuse().program()});
}

// Another order of the blocks, another part of the sum is there.
TEST(OracleSections, OrderOfBlocksFollowsItsSeed) {
  ProgramBuilder p("clipped");
  const auto g = p.tensor("g", fp32, {"N"}, Distribution::local());
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g)),
             total = p.let("total", reduce_tensor(ReduceOp::sum, sum));
  ProgramParts parts = p.returns({p.let("y", sum * 0 + total)}).parts();
  parts.sections = {fuse("f", {"sum", "total", "y"})};
  const Program program(parts, {.without = "fuse-final"});
  std::set<std::vector<double>> seen;
  for (uint64_t order = 0; order < 40; ++order) {
    const OracleInputs inputs = {{"g", {{1, 10, 100}}}};
    seen.insert(whole(run_oracle(program, inputs, {.sizes = {{"N", 3}}, .blocks = 3, .order = order}), "y"));
  }
  EXPECT_EQ(seen, (std::set<std::vector<double>>{
                      {1, 11, 111}, {1, 111, 101}, {11, 10, 111}, {111, 10, 110}, {101, 111, 100}, {111, 110, 100}}));
}

TEST(OracleSections, APlainScalarRunsOnce) {
  ProgramBuilder p("scalars");
  const auto w = p.tensor("w", fp32, {"N"}), rate = p.scalar("rate", 2);
  const auto twice = p.let("twice", 2 * w), length = p.let("length", norm(rate));
  const auto more = p.let("more", twice + 1);
  const Program program =
      with_sections(p.returns({p.let("y", more * length)}), {fuse("f", {"twice", "length", "more"})});
  EXPECT_EQ(whole(run_oracle(program, {{"w", {{1, 2, 3}}}}, {.sizes = {{"N", 3}}}), "y"),
            (std::vector<double>{6, 10, 14}));
}

// Why the rules refuse both: a reader is overtaken by the update of what it reads.
TEST(OracleSections, AnUpdateOvertakesReadersOfTheWholeTensor) {
  ProgramBuilder p("overtaken");
  const auto x = p.tensor("x", fp32, {"N", "N"}), w = p.tensor("w", fp32, {"N", "N"}),
             s = p.tensor("s", fp32, {"N", "N"}, Distribution::sliced(0));
  const auto y = p.let("y", matmul(x, w)), all = p.let("all", all_gather(s));
  p.let("w1", update(w, w - y));
  p.let("s1", update(s, 2 * s));
  const Program program = p.returns({y, all});
  const OracleOptions options = {.ranks = 2, .sizes = {{"N", 4}}};
  const OracleInputs inputs = random_inputs(program, options, 1);
  const auto found = [&](const Section& section, std::string_view without) {
    ProgramParts parts = program.parts();
    parts.sections = {section};
    if (!without.empty()) EXPECT_USER_ERROR(Program(parts), "(rule " + std::string(without) + ")");
    return difference(run_oracle(program, inputs, options),
                      run_oracle(Program(parts, {.without = without}), inputs, options), 1e-6);
  };
  EXPECT_NE(found(overlapped("o", {"y", "w1"}), "overlap-aligned").find("output y["), std::string::npos);
  const std::string gathered = found(fuse("f", {"all", "s1"}), "fuse-chain");
  EXPECT_NE(gathered.find("output all[0, 0]"), std::string::npos) << gathered;
  EXPECT_NE(gathered.find("missing"), std::string::npos) << gathered;
  EXPECT_EQ(found(fuse("f", {"w1", "s1"}), ""), "");
}

}  // namespace
}  // namespace axonn::coconet::test
