#include "axonn/coconet/language/dataflow.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

// CoCoNet's figure of Adam.
Program adam() {
  ProgramBuilder p("adam");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"}), m = p.tensor("m", ElementType::fp32, {"N"}),
             v = p.tensor("v", ElementType::fp32, {"N"});
  const auto lr = p.scalar("lr", 1e-3), beta1 = p.scalar("beta1", 0.9), beta2 = p.scalar("beta2", 0.999),
             step = p.scalar("step");
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto m1 = p.let("m1", update(m, beta1 * m + (1 - beta1) * sum));
  const auto v1 = p.let("v1", update(v, beta2 * v + (1 - beta2) * sum * sum));
  return p.returns(
      {p.let("w1", update(w, w - lr * (m1 / (1 - pow(beta1, step))) / sqrt(v1 / (1 - pow(beta2, step)))))});
}

TEST(Program, InfersTypes) {
  const Program program = adam();
  EXPECT_EQ(program.type("sum").to_string(), "fp32 [N] replicated");
  EXPECT_EQ(program.type("w1").to_string(), "fp32 [N] replicated");
  EXPECT_EQ(program.statement("w1").expression.to_string(),
            "update(w, w - lr * (m1 / (1 - beta1 ^ step)) / sqrt(v1 / (1 - beta2 ^ step)))");
  EXPECT_EQ(program.update_of("m")->name, "m1");
  EXPECT_EQ(program.consumers_of("sum"), (std::vector<std::string>{"m1", "v1"}));
}

TEST(Program, GivesAStatementToEveryCollectiveInAnExpression) {
  ProgramBuilder p("hoist");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local());
  const auto x = p.let("x", all_reduce(ReduceOp::sum, 2 * g) + norm(all_reduce(ReduceOp::sum, g)));
  const Program program = p.returns({x});
  std::vector<std::string> statements;
  for (const Statement& statement : program.statements())
    statements.push_back(statement.name + " = " + statement.expression.to_string());
  EXPECT_EQ(statements, (std::vector<std::string>{"x.1 = 2 * g", "x.2 = all_reduce(+, x.1)", "x.3 = all_reduce(+, g)",
                                                  "x.4 = norm(x.3)", "x = x.2 + x.4"}));
}

TEST(Program, PutsTheStatementsOfASectionTogether) {
  ProgramParts parts = adam().parts();
  parts.statements.insert(parts.statements.begin() + 2, {"other", Expression::reference("sum") * 2});
  parts.sections = {{SectionKind::fuse, "compute", {"w1", "m1", "v1"}}};
  const Program program(parts);
  std::vector<std::string> names;
  for (const Statement& statement : program.statements()) names.push_back(statement.name);
  EXPECT_EQ(names, (std::vector<std::string>{"sum", "m1", "v1", "w1", "other"}));
  EXPECT_EQ(program.sections()[0].members, (std::vector<std::string>{"m1", "v1", "w1"}));
}

TEST(Program, AFusedSectionStandsBetweenStatementsOfAnOverlap) {
  ProgramBuilder p("layer");
  const auto x = p.tensor("x", ElementType::fp32, {"M", "K"}, Distribution::sliced(1)),
             w = p.tensor("w", ElementType::fp32, {"K", "N"}, Distribution::sliced(0));
  const auto layer = p.let("layer", matmul(x, w)), rs = p.let("rs", reduce_scatter(ReduceOp::sum, layer));
  const auto twice = p.let("twice", 2 * rs);
  ProgramParts parts = p.returns({p.let("out", all_gather(twice))}).parts();
  parts.sections = {{SectionKind::overlap, "all", {"layer", "sum", "out"}},
                    {SectionKind::fuse, "sum", {"rs", "twice"}}};
  EXPECT_EQ(Program(parts).parts(), parts);
}

TEST(Program, RefusesSectionsThatHoldEachOther) {
  ProgramParts parts = adam().parts();
  parts.sections = {{SectionKind::overlap, "a", {"m1", "b"}}, {SectionKind::overlap, "b", {"v1", "a"}}};
  EXPECT_USER_ERROR(Program(parts), "overlap a: a section has two members or more", "'b'", "section-members");
}

TEST(Program, NamesHoistedStatementsAsNothingElse) {
  ProgramBuilder p("hoist");
  const auto g = p.tensor("x.1", ElementType::fp32, {"N"}, Distribution::local());
  const Program program = p.returns({p.let("x", 2 * all_reduce(ReduceOp::sum, g))});
  EXPECT_EQ(program.statement("x").expression.to_string(), "2 * x.2");
}

TEST(Program, RefusesWhatADeclarationCannotSay) {
  ProgramParts parts = adam().parts();
  parts.name = "two words";
  EXPECT_USER_ERROR(Program(parts), "program: a name has at most 100 letters", "'two words'");
  parts = adam().parts();
  parts.declarations[4].value = std::numeric_limits<double>::infinity();
  EXPECT_USER_ERROR(Program(parts), "lr: a value is a finite number");
}

TEST(Program, BeginsStateWithNumbersAndCopies) {
  ProgramParts parts = adam().parts();
  parts.declarations[0].value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_USER_ERROR(Program(parts), "g: a value is a finite number");
  parts.declarations[0].value.reset();
  for (const char* other : {"g", "sum", "lost"}) {
    parts.declarations[0].copy_of = other;
    EXPECT_USER_ERROR(Program(parts), "g: it begins as a copy of another declared tensor, not of", other);
  }
  parts.declarations[0].copy_of = "lr";
  EXPECT_USER_ERROR(Program(parts), "g: it begins as a copy of a tensor of its shape and group, and lr is fp64 []");
}

TEST(Program, SendsTensorsOnlyAndInRange) {
  ProgramBuilder p("border", 2);
  const auto rate = p.scalar("rate", 1);
  const auto x = p.tensor("x", ElementType::fp32, {"N"}, Distribution::replicated(), 1);
  ProgramBuilder far = p;
  EXPECT_USER_ERROR(p.returns({p.let("out", send(rate + 1))}), "rule send");
  EXPECT_USER_ERROR(far.returns({far.let("out", send(x, std::numeric_limits<int>::max()))}),
                    "to group 2147483648 of 2");
}

TEST(Expression, KeepsOnlyAttributesOfItsOperation) {
  const Expression x = Expression::reference("x");
  EXPECT_EQ(Expression::of(Operation::all_gather, {x}, {.dim = 3}), all_gather(x));
  EXPECT_EQ(Expression::of(Operation::slice, {x}, {.dim = 3}), slice(x, 3));
}

TEST(Expression, PrintsSignsSoThatTheyCanBeRead) {
  const Expression x = Expression::reference("x");
  EXPECT_EQ(pow(-0.0, x).to_string(), "(-0) ^ x");
  EXPECT_EQ(send(x, -1).to_string(), "send(x, GroupRank(GROUP-1, RANK))");
}

TEST(Program, RefusesAFusionAcrossASum) {
  ProgramBuilder p("clipped");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"});
  const auto rate = p.scalar("lr", 0.1);
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g)), length = p.let("length", norm(sum));
  const Program program = p.returns({p.let("w1", update(w, w - rate * sum / length))});
  ProgramParts parts = program.parts();
  parts.sections = {{SectionKind::fuse, "all", {"sum", "length", "w1"}}};
  EXPECT_USER_ERROR(Program(parts), "fuse all", "only if they are complete", "'w1', which reads 'length'",
                    "fuse-final");
  parts.sections = {{SectionKind::fuse, "two", {"sum", "w1"}}};
  EXPECT_USER_ERROR(Program(parts), "both depends on it and feeds it", "section-order");
}

}  // namespace
}  // namespace axonn::coconet
