#include <algorithm>

#include <gtest/gtest.h>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/language/typing.hpp"
#include "coconet/oracle/oracle_settings.hpp"
#include "support/user_error.hpp"

// Every rule stops a program that gives a wrong result, or says here why no result can show it.
namespace axonn::coconet::test {
namespace {

using enum ElementType;

// A program's parts beside declarations(). Its output is y.
struct Body {
  std::vector<Statement> statements;
  std::vector<Section> sections = {};
  std::vector<Declaration> declarations = {};
};

struct RuleCase {
  std::string_view rule;
  Body right, wrong;
};

std::vector<Declaration> declarations() {
  const auto tensor = [](std::string name, Shape shape, Distribution lies = Distribution::replicated(), int group = 0) {
    return Declaration{std::move(name),
                       {.element = fp32, .shape = std::move(shape), .distribution = lies, .group = group}};
  };
  return {tensor("g", {"N"}, Distribution::local()),
          tensor("h", {"M", "N"}, Distribution::local()),
          tensor("w", {"N"}),
          tensor("v", {"N"}),
          tensor("u", {"M"}),
          tensor("s", {"N"}, Distribution::sliced(0)),
          tensor("next", {"N"}, Distribution::replicated(), 1),
          tensor("a", {"M", "N"}),
          tensor("b", {"N", "N"}),
          tensor("c", {"M", "N"}),
          tensor("image", {"B", "C", "M", "N"}),
          tensor("kernel", {"O", "C", 3, 3}),
          tensor("narrow", {"O", "D", 3, 3})};
}

const OracleOptions kOptions = {
    .ranks = 3, .sizes = {{"N", 7}, {"M", 5}, {"B", 2}, {"C", 4}, {"D", 3}, {"O", 2}}, .blocks = 3};

ProgramParts parts_of(const Body& body) {
  ProgramParts parts = {.name = "program", .sizes = {"N", "M", "B", "C", "D", "O"}, .groups = 2};
  parts.declarations = declarations();
  parts.declarations.insert(parts.declarations.end(), body.declarations.begin(), body.declarations.end());
  parts.statements = body.statements;
  parts.sections = body.sections;
  parts.outputs = {"y"};
  return parts;
}

OracleResult run(const Program& program, uint64_t order = 0) {
  OracleOptions options = kOptions;
  options.order = order;
  return run_oracle(program, random_inputs(program, options, 5), options);
}

Expression sum_of(const Expression& x) { return all_reduce(ReduceOp::sum, x); }

const auto g = Expression::reference("g"), w = Expression::reference("w"), v = Expression::reference("v"),
           u = Expression::reference("u"), s = Expression::reference("s"), a = Expression::reference("a"),
           b = Expression::reference("b"), c = Expression::reference("c"), d = Expression::reference("d"),
           t = Expression::reference("t"), y = Expression::reference("y"), sum = Expression::reference("sum"),
           length = Expression::reference("length"), next = Expression::reference("next"),
           h = Expression::reference("h"), image = Expression::reference("image"),
           kernel = Expression::reference("kernel"), narrow = Expression::reference("narrow");

Declaration sliced_on(int dim) {
  return {"t", {.element = fp32, .shape = {"N"}, .distribution = Distribution::sliced(dim)}};
}

std::vector<RuleCase> typing_cases() {
  const auto high = ReduceOp::max;
  return {
      {"shapes", {{{"y", w + w}}}, {{{"y", w + u}}}},
      {"distributions", {{{"y", slice(w) + s}}}, {{{"y", w + s}}}},
      {"groups", {{{"y", send(w) + next}}}, {{{"y", w + next}}}},
      // Nothing is dropped less often than never.
      {"probability", {{{"y", dropout(w, 0)}}}, {{{"y", dropout(w, -0.5)}}}},
      {"slice", {{{"y", all_gather(slice(sum_of(g)))}}}, {{{"y", all_gather(slice(g))}}}},
      {"load", {{{"y", broadcast(load(sum_of(g)))}}}, {{{"y", broadcast(load(g))}}}},
      {"update", {{{"y", update(w, all_gather(s))}}}, {{{"y", update(w, s)}}}},
      {"update", {{{"y", update(s, slice(w))}}}, {{{"y", update(s, w)}}}},
      {"update", {{{"y", update(w, w + 1)}}}, {{{"y", update(w, a)}}}},
      {"distributions", {{{"y", slice(w) + slice(v)}}}, {{{"y", w + slice(v)}}}},
      {"distributions", {{{"y", load(w, 1) + load(v, 1)}}}, {{{"y", w + load(v, 1)}}}},
      {"reduced-dims", {{{"y", reduce_tensor(high, a, {1})}}}, {{{"y", reduce_tensor(high, a, {2})}}}},
      {"norm", {{{"y", sqrt(sum_of(reduce_tensor(ReduceOp::sum, s * s)))}}}, {{{"y", sum_of(norm(s))}}}},
      {"matmul-shapes", {{{"y", matmul(a, b)}}}, {{{"y", matmul(a, c)}}}},
      {"matmul-distributions", {{{"y", sum_of(matmul(slice(a, 1), slice(b, 0)))}}}, {{{"y", matmul(slice(a, 1), b)}}}},
      {"conv2d-shapes", {{{"y", conv2d(image, kernel)}}}, {{{"y", conv2d(image, narrow)}}}},
      // Slices of rows lack the edges of their neighbours.
      {"conv2d-distributions",
       {{{"d", conv2d(image, kernel)}, {"y", slice(d, 2)}}},
       {{{"y", conv2d(slice(image, 2), kernel)}}}},
      // A sum of sums is as many times too large as there are ranks.
      {"all-reduce", {{{"y", sum_of(g)}}}, {{{"y", sum_of(sum_of(g))}}}},
      {"reduce-scatter",
       {{{"y", reduce_scatter(ReduceOp::sum, g)}}},
       {{{"y", reduce_scatter(ReduceOp::sum, sum_of(g))}}}},
      {"reduce", {{{"y", reduce(ReduceOp::sum, g)}}}, {{{"y", reduce(ReduceOp::sum, sum_of(g))}}}},
      {"all-gather", {{{"y", all_gather(reduce_scatter(ReduceOp::sum, g))}}}, {{{"y", all_gather(g)}}}},
      {"broadcast", {{{"y", broadcast(reduce(ReduceOp::sum, g))}}}, {{{"y", broadcast(g)}}}},
      {"send", {{{"y", send(w)}}}, {{{"y", send(w, 2)}}}},
  };
}

std::vector<RuleCase> program_cases() {
  const Statement before = {"y", w + 1}, after = {"d", update(w, 2 * w)};
  return {
      {"declarations", {{{"y", 2 * t}}, {}, {sliced_on(0)}}, {{{"y", 2 * t}}, {}, {sliced_on(1)}}},
      {"stale", {{before, after}}, {{after, before}}},
  };
}

std::vector<RuleCase> section_cases() {
  const std::vector<Statement> clipped = {{"sum", sum_of(g)}, {"length", norm(sum)}, {"y", sum / length}};
  const std::vector<Statement> layer = {{"d", 2 * a}, {"y", matmul(d, b)}};
  const std::vector<Statement> layer_of_sum = {{"d", sum_of(h)}, {"y", matmul(d, b)}};
  const std::vector<Statement> added = {{"d", 2 * v}, {"y", update(w, w + d)}, {"t", y + 1}};
  const std::vector<Statement> gathered = {{"d", slice(w)}, {"t", all_gather(d)}, {"y", t + w}};
  const std::vector<Statement> summed = {{"d", 2 * g}, {"y", sum_of(d)}};
  const std::vector<Statement> wider = {{"d", 2 * v}, {"y", a * d}},
                               narrower = {{"d", 2 * a}, {"t", 2 * v}, {"y", d * t}};
  const std::vector<Statement> pair = {{"d", 2 * v}, {"y", d + w}};
  return {
      {"section-members", {added}, {added, {fuse("f", {"d", "y"}), fuse("again", {"y", "t"})}}},
      {"section-order", {clipped, {fuse("f", {"sum", "length"})}}, {clipped, {fuse("f", {"sum", "y"})}}},
      {"fuse-layers", {layer}, {layer, {fuse("f", {"d", "y"})}}},
      {"fuse-layers", {layer_of_sum}, {layer_of_sum, {fuse("f", {"d", "y"})}}},
      {"fuse-chain", {summed}, {summed, {fuse("f", {"d", "y"})}}},
      {"fuse-chain", {gathered}, {gathered, {fuse("f", {"d", "t", "y"})}}},
      {"fuse-final", {clipped}, {clipped, {fuse("f", {"sum", "length", "y"})}}},
      {"fuse-aligned", {wider}, {wider, {fuse("f", {"d", "y"})}}},
      {"fuse-aligned", {narrower}, {narrower, {fuse("f", {"d", "t", "y"})}}},
      {"overlap-chain", {pair, {overlapped("o", {"d", "y"})}}, {pair, {overlapped("o", {"y", "d"})}}},
      {"overlap-aligned", {clipped}, {clipped, {overlapped("o", {"sum", "length", "y"})}}},
      {"overlap-aligned", {layer}, {layer, {overlapped("o", {"d", "y"})}}},
      {"overlap-aligned", {wider}, {wider, {overlapped("o", {"d", "y"})}}},
  };
}

struct Unshown {
  std::string_view rule, reason;
};
const Unshown kUnshown[] = {
    {"element-types", "types decide how results are rounded, and the oracle does not round"},
    {"booleans", "to the oracle a comparison is 0 or 1, a number like others"},
    {"names", "results are compared by name: one that stands for two values has none"},
    {"defined", "a value that is not there has no type: Program refuses it without the rule, too"},
    {"update-once", "the order of two updates is that of the text, until a schedule moves one of them"},
    {"outputs", "without it there is no result to compare"},
    {"fuse-rooted", "the results stay: no executor has a rank that computes block by block what others wait for"},
};

void expect_needed(const std::vector<RuleCase>& cases) {
  for (const RuleCase& each : cases) {
    SCOPED_TRACE(each.rule);
    const Program right(parts_of(each.right));
    EXPECT_USER_ERROR(Program(parts_of(each.wrong)), "(rule " + std::string(each.rule) + ")");
    const Program wrong(parts_of(each.wrong), {.without = each.rule});
    EXPECT_EQ(difference(run(right), run(right), 0), "");
    std::string found;
    for (uint64_t order = 0; order < 4 && found.empty(); ++order)
      found = difference(run(right, order), run(wrong, order), 1e-6);
    EXPECT_NE(found, "");
  }
}

// Nothing takes the place of what is not there.
TEST(RulesAreNeeded, AllIsMissingWhereOperandsDoNotFit) {
  const std::pair<std::string_view, Expression> cases[] = {
      {"shapes", w + u},
      {"shapes", reduce_tensor(ReduceOp::max, u + b, {0})},
      {"matmul-shapes", matmul(a, c)},
      {"matmul-distributions", matmul(slice(a, 1), b)},
      {"conv2d-shapes", conv2d(image, narrow)},
      {"send", send(w, 2)},
      {"send", send(w, -1)},
      {"send", send(w, 0)},
      {"all-gather", all_gather(reduce(ReduceOp::sum, g))},
      {"broadcast", broadcast(s)},
  };
  for (const auto& [rule, expression] : cases) {
    const OracleResult result = run(Program(parts_of({{{"y", expression}}}), {.without = rule}));
    EXPECT_TRUE(std::ranges::all_of(result.outputs.at("y").parts[0], is_missing)) << expression.to_string();
  }
}

TEST(RulesAreNeeded, Types) { expect_needed(typing_cases()); }
TEST(RulesAreNeeded, Programs) { expect_needed(program_cases()); }
TEST(RulesAreNeeded, Sections) { expect_needed(section_cases()); }

TEST(RulesAreNeeded, EveryRuleHasACaseOrAReason) {
  std::vector<std::string_view> shown, unshown;
  for (const auto& cases : {typing_cases(), program_cases(), section_cases()})
    for (const RuleCase& each : cases) shown.push_back(each.rule);
  for (const Unshown& each : kUnshown) unshown.push_back(each.rule);
  size_t rules = 0;
  for (const auto& table : {typing_rules(), program_rules(), section_rules()})
    for (const Rule& rule : table) {
      const bool has_case = std::ranges::count(shown, rule.name) > 0;
      EXPECT_EQ(std::ranges::count(unshown, rule.name), has_case ? 0 : 1) << rule.name;
      rules += has_case ? 0 : 1;
    }
  EXPECT_EQ(rules, unshown.size());
}

// The reasons, where they can be tested.
TEST(RulesAreNeeded, NoResultShowsTheOthers) {
  const auto run_without = [](std::string_view rule, const Body& body) {
    EXPECT_USER_ERROR(Program(parts_of(body)), "(rule " + std::string(rule) + ")");
    return run(Program(parts_of(body), {.without = rule}));
  };
  const auto half = cast(v, bf16);
  EXPECT_EQ(difference(run_without("element-types", {{{"y", w + half}}}), run(Program(parts_of({{{"y", w + v}}}))), 0),
            "");
  EXPECT_EQ(difference(run_without("booleans", {{{"y", w + less(w, v)}}}),
                       run(Program(parts_of({{{"y", select(less(w, v), w + 1, w)}}}))), 0),
            "");
  EXPECT_USER_ERROR(Program(parts_of({{{"y", w + d}}}), {.without = "defined"}), "'d'");
  const Body first_v = {{{"d", update(w, v)}, {"y", update(w, 2 * v)}}},
             last_v = {{{"y", update(w, 2 * v)}, {"d", update(w, v)}}};
  EXPECT_NE(difference(run_without("update-once", first_v), run_without("update-once", last_v), 1e-6), "");
}

}  // namespace
}  // namespace axonn::coconet::test
