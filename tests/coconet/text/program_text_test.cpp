#include "axonn/coconet/text/program_text.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "coconet/language/figure_texts.hpp"
#include "coconet/language/random_programs.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

const Expression a = Expression::reference("a"), b = Expression::reference("b"), c = Expression::reference("c");

TEST(ProgramText, PrintsEveryFigureAsItWasRead) {
  for (const Figure& figure : kFigures) {
    SCOPED_TRACE(figure.name);
    const Program program = parse_program(figure.text, "figure");
    EXPECT_EQ(to_text(program), figure.text);
    EXPECT_EQ(parse_program(to_text(program), "printed"), program);
  }
}

TEST(ProgramText, IsTheBuildersProgram) {
  ProgramBuilder p("border", 2);
  const auto x = p.tensor("x", ElementType::bf16, {"B", 4 * Size("H")}, Distribution::sliced(1), 1);
  const auto s = p.tensor("s", ElementType::fp64, {}, Distribution::rooted(3), 1);
  const auto rate = p.scalar("rate", -0.5);
  p.scalar("step");
  const Program program = p.returns({p.let("y", send(all_gather(2 * x), -1)), p.let("z", broadcast(s) * rate)});
  const std::string text = R"(program border
groups 2
size B, H
tensor x bf16 [B, 4*H] sliced(1) on 1
tensor s fp64 [] rooted(3) on 1
scalar rate = -0.5
scalar step
y.1 = 2 * x
y.2 = all_gather(y.1)
y = send(y.2, GroupRank(GROUP-1, RANK))
z.1 = broadcast(s)
z = z.1 * rate
return y, z
)";
  EXPECT_EQ(to_text(program), text);
  EXPECT_EQ(parse_program(text, "border.coco"), program);
}

TEST(ProgramText, HasCommentsBlanksAndLongLines) {
  const Program program = parse_program(
      "# SGD\r\n\r\nprogram sgd  # first\nsize N\ntensor g fp32 [\n  N  # all\n] local\n\n"
      "\tsum = all_reduce(\n+,\n\n g)\r\nx = (sum\n  + 1)\nreturn x",
      "sgd.coco");
  EXPECT_EQ(to_text(program),
            "program sgd\nsize N\ntensor g fp32 [N] local\nsum = all_reduce(+, g)\nx = sum + 1\nreturn x\n");
  EXPECT_EQ(program.find_declaration("g")->line, 5);
  EXPECT_EQ(program.statement("sum").line, 9);
  EXPECT_EQ(program.statement("x").line, 13);
}

TEST(ProgramText, StopsBeforeASchedule) {
  const std::string text =
      "program p\ntensor g fp32 [8] local\ns = all_reduce(+, g)\nreturn s\n\n"
      "  schedule fast\nsplit $ (\n";
  const ProgramAndRest read = parse_program_and_rest(text, "p.coco");
  EXPECT_EQ(read.rest, "schedule fast\nsplit $ (\n");
  EXPECT_EQ(read.rest_line, 6);
  EXPECT_EQ(read.rest.data(), text.data() + text.find("schedule"));
  EXPECT_TRUE(parse_program_and_rest(to_text(read.program), "p.coco").rest.empty());
  EXPECT_USER_ERROR(parse_program(text, "p.coco"), "p.coco:6: expected a program only, got a schedule");
}

struct Case {
  std::string_view text;
  Expression expression;
};

// Every operation and every setting, each once at least.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"a + b - c", a + b - c},
      {"a - (b + c)", a - (b + c)},
      {"a * b / c", a * b / c},
      {"a / (b * c)", a / (b * c)},
      {"(a + b) * c", (a + b) * c},
      {"a ^ b ^ c", pow(a, pow(b, c))},
      {"(a ^ b) ^ c", pow(pow(a, b), c)},
      {"-a ^ b", -pow(a, b)},
      {"(-a) ^ -b", pow(-a, -b)},
      {"-(a + b)", -(a + b)},
      {"--a * -2", -(-a) * -2},
      {"a ^ -0.5", pow(a, -0.5)},
      {"(-2) ^ a", pow(-2, a)},
      {"-2 ^ a", -pow(2, a)},
      {"a - -1e-300", a - -1e-300},
      {"ranks * 1e+22", Expression::ranks() * 1e22},
      {"fma(a, b, c)", fma(a, b, c)},
      {"sqrt(a)", sqrt(a)},
      {"exp(a)", Expression::of(Operation::exponential, {a})},
      {"log(a)", Expression::of(Operation::logarithm, {a})},
      {"abs(a)", Expression::of(Operation::absolute, {a})},
      {"max(a, b)", Expression::of(Operation::maximum, {a, b})},
      {"min(a, b)", Expression::of(Operation::minimum, {a, b})},
      {"tanh(a)", Expression::of(Operation::tanh, {a})},
      {"relu(a)", Expression::of(Operation::relu, {a})},
      {"gelu(a)", Expression::of(Operation::gelu, {a})},
      {"sign(a)", sign(a)},
      {"sigmoid(a)", Expression::of(Operation::sigmoid, {a})},
      {"a < b", less(a, b)},
      {"a <= b", Expression::of(Operation::less_equal, {a, b})},
      {"a > b + c", Expression::of(Operation::greater, {a, b + c})},
      {"a >= b", Expression::of(Operation::greater_equal, {a, b})},
      {"a == b", Expression::of(Operation::equal, {a, b})},
      {"(a == b) != (b < c)",
       Expression::of(Operation::not_equal, {Expression::of(Operation::equal, {a, b}), less(b, c)})},
      {"select(a < b, a, b)", select(less(a, b), a, b)},
      {"cast(a, bf16)", cast(a, ElementType::bf16)},
      {"dropout(a, 0.1)", dropout(a, 0.1)},
      {"dropout(a, 0.1, stream=-9223372036854775808)", dropout(a, 0.1, std::numeric_limits<int64_t>::min())},
      {"slice(a, dim=1)", slice(a, 1)},
      {"load(a, root=2)", load(a, 2)},
      {"update(a, b)", update(a, b)},
      {"reduce_tensor(max, a)", reduce_tensor(ReduceOp::max, a)},
      {"reduce_tensor(+, max(a, b), dims=[0, 2])",
       reduce_tensor(ReduceOp::sum, Expression::of(Operation::maximum, {a, b}), {0, 2})},
      {"norm(a, dims=[1])", norm(a, {1})},
      {"norm(a)", norm(a)},
      {"matmul(a, b)", matmul(a, b)},
      {"conv2d(a, b)", conv2d(a, b)},
      {"all_reduce(min, a)", all_reduce(ReduceOp::min, a)},
      {"reduce_scatter(+, a, dim=-1)", reduce_scatter(ReduceOp::sum, a, -1)},
      {"reduce(max, a, root=3)", reduce(ReduceOp::max, a, 3)},
      {"all_gather(a)", all_gather(a)},
      {"broadcast(a)", broadcast(a)},
      {"send(a, GroupRank(GROUP+2, RANK))", send(a, 2)},
      {"send(a, GroupRank(GROUP-2147483648, RANK))", send(a, std::numeric_limits<int>::min())},
  };
  return all;
}

void collect(const Expression& expression, std::set<Operation>& found) {
  found.insert(expression.operation());
  for (const Expression& operand : expression.operands()) collect(operand, found);
}

TEST(ExpressionText, HasEveryOperationAndSetting) {
  std::set<Operation> found;
  for (const Case& row : cases()) {
    EXPECT_EQ(row.expression.to_string(), row.text);
    EXPECT_EQ(parse_expression(row.text), row.expression) << row.text;
    collect(row.expression, found);
  }
  for (const OperationInfo& row : operations()) EXPECT_TRUE(found.contains(row.operation)) << row.name;
}

TEST(ExpressionText, LeavesOutDefaults) {
  EXPECT_EQ(parse_expression("slice(a)"), slice(a));
  EXPECT_EQ(parse_expression("reduce(+, a)"), reduce(ReduceOp::sum, a));
  EXPECT_EQ(parse_expression("send(a)"), send(a));
  EXPECT_EQ(parse_expression("reduce_scatter(+, a)"), reduce_scatter(ReduceOp::sum, a));
  EXPECT_EQ(parse_expression("dropout(a, stream=3, 0.5)"), dropout(a, 0.5, 3));
  EXPECT_EQ(parse_expression("((a)) + (((b) * c))"), a + b * c);
  EXPECT_EQ(parse_expression("a\n"), a);
  EXPECT_EQ(parse_expression("slice(dim, dim=1) * fp32").to_string(), "slice(dim, dim=1) * fp32");
}

TEST(ExpressionText, RandomExpressionsAreReadBack) {
  RandomPrograms random(1);
  for (int i = 0; i < 2000; ++i) {
    const Expression expression = random.expression(6);
    ASSERT_EQ(parse_expression(expression.to_string()), expression) << expression.to_string();
  }
}

TEST(ProgramText, RandomProgramsAreReadBack) {
  RandomPrograms random(2);
  size_t statements = 0, fused = 0, overlaps = 0, updates = 0;
  for (int i = 0; i < 2000; ++i) {
    const Program program = random.program();
    const std::string text = to_text(program);
    ASSERT_EQ(parse_program(text, "random"), program) << text;
    ASSERT_EQ(Program(program.parts()), program) << text;
    statements += program.statements().size();
    for (const Section& section : program.sections()) (section.kind == SectionKind::fuse ? fused : overlaps) += 1;
    for (const Statement& statement : program.statements()) updates += statement.expression.is(Operation::update);
  }
  EXPECT_GT(statements, 30000U);
  EXPECT_GT(fused, 2000U);
  EXPECT_GT(overlaps, 100U);
  EXPECT_GT(updates, 500U);
}

}  // namespace
}  // namespace axonn::coconet
