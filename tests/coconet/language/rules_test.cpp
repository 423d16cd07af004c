#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/coconet/text/program_text.hpp"
#include "coconet/language/typing.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

// Lines that break one rule only, and a part of its message.
struct Broken {
  std::string_view rule, lines, message;
  bool alone = true;  // whether the lines are a program without the rule
};

constexpr Broken kBroken[] = {
    // typing
    {"element-types", "x = w + h", "fp32 and bf16 [N] replicated"},
    {"booleans", "x = w < 1\ny = x + 1", "got x boolean [N] replicated"},
    {"booleans", "x = select(w, w, w)", "got w fp32 [N] replicated"},
    {"booleans", "x = cast(w, boolean)", "got cast(..., boolean)"},
    {"shapes", "x = w + k", "fp32 [N] replicated and fp32 [K] replicated"},
    {"distributions", "x = w + s", "fp32 [N] replicated and fp32 [N] sliced(0)"},
    {"groups", "x = w + far", "fp32 [N] replicated and fp32 [N] replicated on 1"},
    {"probability", "x = dropout(w, 1)", "got 1"},
    {"slice", "x = slice(g, dim=0)", "fp32 [N] local, dim 0"},
    {"slice", "x = slice(w, dim=1)", "fp32 [N] replicated, dim 1"},
    {"slice", "x = slice(one, dim=0)", "fp32 [1] replicated, dim 0"},
    {"load", "x = load(g, root=0)", "fp32 [N] local, root 0"},
    {"load", "x = load(w, root=-1)", "fp32 [N] replicated, root -1"},
    {"update", "x = update(w, slice(w))", "fp32 [N] replicated and fp32 [N] sliced(0)"},
    {"update", "x = update(2 * w, w)", "got 2 * w", false},
    {"reduced-dims", "x = norm(w, dims=[1])", "norm(w, dims=[1]) of fp32 [N] replicated"},
    {"reduced-dims", "x = norm(w, dims=[0, 0])", "norm(w, dims=[0, 0])"},
    {"norm", "x = norm(s)", "fp32 [N] sliced(0)"},
    {"matmul-shapes", "x = matmul(a, c)", "fp32 [B, C, K, K] replicated and fp32 [C, C, 3, 3] replicated"},
    {"matmul-shapes", "x = matmul(k, q)", "fp32 [K] replicated and fp32 [K, N] replicated"},
    {"matmul-distributions", "x = matmul(in, q0)", "fp32 [B, K] replicated and fp32 [K, N] sliced(0)"},
    {"conv2d-shapes", "x = conv2d(a, c2)", "fp32 [C, C, 2, 2] replicated"},
    {"conv2d-shapes", "x = conv2d(w, c)", "fp32 [N] replicated and"},
    {"conv2d-distributions", "x = conv2d(a3, c)", "fp32 [B, C, K, K] sliced(3) and"},
    {"all-reduce", "x = all_reduce(+, w)", "fp32 [N] replicated"},
    {"reduce-scatter", "x = reduce_scatter(+, w)", "fp32 [N] replicated, dim 0"},
    {"reduce-scatter", "x = reduce_scatter(+, g, dim=1)", "fp32 [N] local, dim 1"},
    {"reduce", "x = reduce(+, w)", "fp32 [N] replicated, root 0"},
    {"reduce", "x = reduce(+, g, root=-1)", "fp32 [N] local, root -1"},
    {"all-gather", "x = all_gather(g)", "fp32 [N] local"},
    {"broadcast", "x = broadcast(w)", "fp32 [N] replicated"},
    {"send", "x = send(far, GroupRank(GROUP+1, RANK))", "fp32 [N] replicated on 1 to group 2 of 2"},
    {"send", "x = send(w, GroupRank(GROUP-1, RANK))", "to group -1 of 2"},
    {"send", "x = send(w, GroupRank(GROUP+0, RANK))", "to group 0 of 2"},
    {"send", "x = send(rate)", "to group 0 of 2"},
    // names, order and outputs
    {"names", "x = w\nx = g", "got 'x'"},
    {"names", "g = w\nx = g", "got 'g'"},
    {"names", "fuse w {\nx = w\ny = w\n}", "got 'w'"},
    {"declarations", "tensor t boolean [N] local\nx = w",
     "no tensor in memory is boolean: use fp32, or compare in a statement, got boolean [N] local"},
    {"declarations", "tensor t fp32 [M] local\nx = w",
     "size M is not declared: add a line 'size M', got fp32 [M] local"},
    {"declarations", "tensor t fp32 [N] sliced(1)\nx = w",
     "it has 1 dims, from 0 on, and cannot be sliced on dim 1, got fp32 [N] sliced(1)"},
    {"declarations", "tensor t fp32 [1] sliced(0)\nx = w",
     "dim 0 has one element, and cannot be sliced, got fp32 [1] sliced(0)"},
    {"declarations", "tensor t fp32 [N] rooted(-1)\nx = w",
     "a rank is a number from 0 on, got -1, got fp32 [N] rooted(-1)"},
    {"declarations", "tensor t fp32 [N] local on 2\nx = w",
     "the program has 2 groups, from 0 on; there is no group 2, got fp32 [N] local on 2"},
    {"declarations", "tensor t fp32 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] local\nx = w",
     "a tensor has at most 16 dims, got 17, got fp32 [1, 1"},
    {"defined", "y = x + 1\nx = w", "got 'x'", false},
    {"defined", "x = x + 1", "got 'x'", false},
    {"stale", "u = update(w, 2 * w)\nx = w", "x = w, line"},
    {"update-once", "u = update(w, 2 * w)\nx = update(w, 3 * u)", "x = update(w, 3 * u), line"},
    {"outputs", "x = w\nreturn x, x", "got 'x'"},
    {"outputs", "x = w\nreturn w", "got 'w'"},
    {"outputs", "x = w\nreturn y", "got 'y'"},
    {"outputs", "x = w  # no return", "got neither"},
    // sections
    {"section-members", "fuse f {\nx = w + 1\n}", "fuse f, line"},
    {"section-members", "fuse f {\n}\nx = w", "got 0"},
    {"section-members", "fuse f {\nx = w + 1\nfuse e {\ny = x + 1\nz = y + 1\n}\n}", "got 'e'"},
    {"section-members", "overlap o {\nx = w + 1\noverlap e {\ny = x + 1\nz = y + 1\n}\n}", "got 'e'"},
    {"fuse-layers", "fuse f {\ny = matmul(in, q)\nx = relu(y)\n}", "got 'y'"},
    {"fuse-chain", "fuse f {\nx = all_reduce(+, g)\ny = reduce_scatter(+, g)\n}", "got 'y'"},
    {"fuse-chain", "fuse f {\ny = 2 * g\nx = all_reduce(+, y)\n}", "got 'x'"},
    {"fuse-chain", "fuse f {\ny = all_gather(s)\nx = y + 1\n}", "got 'x', which reads 'y'"},
    {"fuse-rooted", "fuse f {\ny = load(w) + 1\nx = broadcast(y)\n}", "got 'x'"},
    {"fuse-rooted", "fuse f {\ny = reduce(+, g)\nx = y + 1\n}", "got 'y'"},
    {"fuse-rooted", "fuse f {\nx = 1 + broadcast(r)\nz = w + 1\n}", "got 'broadcast(r)'"},
    {"fuse-chain", "fuse f {\ny = send(w)\nx = y + 1\n}", "got 'x', which reads 'y'"},
    {"fuse-final", "fuse f {\ny = norm(w)\nx = w / y\n}", "got 'x', which reads 'y'"},
    {"fuse-aligned", "fuse f {\nx = w + 1\ny = k + 1\n}", "'y' [K] beside [N]"},
    {"fuse-aligned", "fuse f {\nx = w + 1\ny = norm(k)\n}", "'y' [K] beside [N]"},
    {"overlap-chain", "overlap o {\nx = w + 1\ny = w + 2\n}", "overlap o, line"},
    {"overlap-aligned", "overlap o {\ny = relu(in)\nx = matmul(y, q)\n}", "got 'x', which reads 'y'"},
    {"overlap-aligned", "overlap o {\ny = norm(w)\nx = y + 1\n}", "got 'x', which reads 'y'"},
    {"overlap-aligned", "overlap o {\ny = one + 1\nx = y + w\n}", "got 'x', which reads 'y'"},
};

constexpr std::string_view kDeclarations = R"(program p
groups 2
size N, K, B, C
scalar rate = 0.5
tensor g fp32 [N] local
tensor w fp32 [N] replicated
tensor s fp32 [N] sliced(0)
tensor r fp32 [N] rooted(0)
tensor h bf16 [N] replicated
tensor k fp32 [K] replicated
tensor one fp32 [1] replicated
tensor far fp32 [N] replicated on 1
tensor in fp32 [B, K] replicated
tensor q fp32 [K, N] replicated
tensor q0 fp32 [K, N] sliced(0)
tensor a fp32 [B, C, K, K] replicated
tensor a3 fp32 [B, C, K, K] sliced(3)
tensor c fp32 [C, C, 3, 3] replicated
tensor c2 fp32 [C, C, 2, 2] replicated
)";

std::string text_of(const Broken& broken) {
  const bool returns = broken.lines.find("return") != std::string_view::npos;
  return std::string(kDeclarations) + std::string(broken.lines) + (returns ? "\n" : "\nreturn x\n");
}

std::vector<Rule> all_rules() {
  std::vector<Rule> all;
  for (const auto& rules : {typing_rules(), program_rules(), section_rules()})
    all.insert(all.end(), rules.begin(), rules.end());
  return all;
}

TEST(Rules, HaveTheirMessages) {
  const std::vector<Rule> rules = all_rules();
  for (const Broken& broken : kBroken) {
    SCOPED_TRACE(broken.lines);
    const auto rule = std::ranges::find(rules, broken.rule, &Rule::name);
    ASSERT_NE(rule, rules.end()) << broken.rule << " is no rule";
    const bool by_reason = rule->name == "declarations";  // a sentence each: the message
    EXPECT_USER_ERROR(parse_program(text_of(broken), "p.coco"),
                      "p.coco: ", ": " + std::string(by_reason ? broken.message : rule->needs),
                      std::string(broken.message), "(rule " + std::string(rule->name) + ")");
  }
}

TEST(Rules, AreAllThatStandsAgainstTheirCases) {
  for (const Broken& broken : kBroken) {
    SCOPED_TRACE(broken.lines);
    if (!broken.alone) continue;
    EXPECT_NO_THROW(parse_program(text_of(broken), "p.coco", {.without = broken.rule}));
  }
}

// No text breaks this rule: the statements of a section stand in it.
TEST(Rules, KeepStatementsOutsideOfASectionInOrder) {
  const Broken whole = {"", "u = w + 1\nv = u + 1\nx = v + u", ""};
  ProgramParts parts = parse_program(text_of(whole), "p.coco").parts();
  parts.sections = {{SectionKind::fuse, "f", {"u", "x"}}};
  EXPECT_USER_ERROR(Program(parts), "no statement outside of a section both depends on it and feeds it",
                    "(rule section-order)");
}

TEST(Rules, HaveACaseEach) {
  std::set<std::string_view> names;
  for (const Rule& rule : all_rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is the name of two rules";
    if (rule.name == "section-order") continue;  // above
    EXPECT_GT(std::ranges::count(kBroken, rule.name, &Broken::rule), 0) << rule.name << " has no case";
  }
}

}  // namespace
}  // namespace axonn::coconet
