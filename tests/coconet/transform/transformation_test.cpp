#include "axonn/coconet/transform/transformation.hpp"

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

using enum SplitPolicy;

// CoCoNet's figure of Adam.
Program adam() {
  ProgramBuilder p("adam");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"}), m = p.tensor("m", ElementType::fp32, {"N"}),
             v = p.tensor("v", ElementType::fp32, {"N"});
  const auto lr = p.scalar("lr", 1e-3), beta1 = p.scalar("beta1", 0.9), beta2 = p.scalar("beta2", 0.999);
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto m1 = p.let("m1", update(m, beta1 * m + (1 - beta1) * sum));
  const auto v1 = p.let("v1", update(v, beta2 * v + (1 - beta2) * sum * sum));
  return p.returns({p.let("w1", update(w, w - lr * m1 / sqrt(v1)))});
}

std::vector<std::string> text_of(const Program& program) {
  std::vector<std::string> lines;
  for (const Statement& statement : program.statements())
    lines.push_back(statement.name + " = " + statement.expression.to_string());
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Transformations, DeriveTheFusedSchedulesOfAdam) {
  Schedule schedule(adam());
  schedule.split("sum", reduce_scatter).reorder("sum", {"m1", "v1", "w1"});
  EXPECT_EQ(
      text_of(schedule.program()),
      (Lines{"sum.part = reduce_scatter(+, g, dim=0)", "m1.part = beta1 * slice(m, dim=0) + (1 - beta1) * sum.part",
             "m1.whole = all_gather(m1.part)", "m1 = update(m, m1.whole)",
             "v1.part = beta2 * slice(v, dim=0) + (1 - beta2) * sum.part * sum.part", "v1.whole = all_gather(v1.part)",
             "v1 = update(v, v1.whole)", "w1.part = slice(w, dim=0) - lr * m1.part / sqrt(v1.part)",
             "w1.whole = all_gather(w1.part)", "w1 = update(w, w1.whole)"}));
  schedule.as_slice("m").as_slice("v").dead("m1.whole").dead("v1.whole");
  schedule.fuse("all", {"sum.part", "m1.part", "v1.part", "m1", "v1", "w1.part", "w1.whole", "w1"});
  EXPECT_EQ(text_of(schedule.program()),
            (Lines{"sum.part = reduce_scatter(+, g, dim=0)", "m1.part = beta1 * m + (1 - beta1) * sum.part",
                   "m1 = update(m, m1.part)", "v1.part = beta2 * v + (1 - beta2) * sum.part * sum.part",
                   "v1 = update(v, v1.part)", "w1.part = slice(w, dim=0) - lr * m1.part / sqrt(v1.part)",
                   "w1.whole = all_gather(w1.part)", "w1 = update(w, w1.whole)"}));
  EXPECT_EQ(schedule.program().type("m").to_string(), "fp32 [N] sliced(0)");

  Schedule replayed(adam());
  for (const Transformation& step : parse_transformations(to_text(schedule.log()), "log")) replayed.apply(step);
  EXPECT_EQ(replayed.program(), schedule.program());
}

TEST(Transformations, HaveInverses) {
  const Program program = adam();
  for (const SplitPolicy policy : {reduce_scatter, SplitPolicy::reduce}) {
    Schedule schedule(program);
    schedule.split("sum", policy).reorder("sum", {"m1", "v1", "w1"});
    schedule.reorder_back("sum", policy == reduce_scatter ? "sum.part" : "sum.root", {"m1", "v1", "w1"}).join("sum");
    // Updates keep the statement that they store apart.
    EXPECT_EQ(text_of(schedule.program()),
              (Lines{"sum = all_reduce(+, g)", "m1.whole = beta1 * m + (1 - beta1) * sum", "m1 = update(m, m1.whole)",
                     "v1.whole = beta2 * v + (1 - beta2) * sum * sum", "v1 = update(v, v1.whole)",
                     "w1.whole = w - lr * m1.whole / sqrt(v1.whole)", "w1 = update(w, w1.whole)"}));
  }
  Schedule sliced(program);
  sliced.split("sum", SplitPolicy::slice);
  EXPECT_EQ(text_of(sliced.program())[2], "sum = all_gather(sum.part)");
  sliced.join("sum");
  EXPECT_EQ(sliced.program(), program);
}

TEST(Transformations, ReduceNormsOfSlicesOverTheRanks) {
  ProgramBuilder p("lamb");
  const auto g = p.tensor("g", ElementType::fp32, {"T", "K"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"T", "K"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto length = p.let("length", norm(sum, {1}));
  Schedule schedule(p.returns({p.let("w1", update(w, w - sum / cast(length, ElementType::fp32)))}));
  schedule.split("sum", reduce_scatter, 1).reorder("sum", {"length", "w1"});
  EXPECT_EQ(text_of(schedule.program()), (Lines{"sum.part = reduce_scatter(+, g, dim=1)",
                                                "length.part = reduce_tensor(+, sum.part * sum.part, dims=[1])",
                                                "length.sum = all_reduce(+, length.part)", "length = sqrt(length.sum)",
                                                "w1.part = slice(w, dim=1) - sum.part / cast(length, fp32)",
                                                "w1.whole = all_gather(w1.part)", "w1 = update(w, w1.whole)"}));
  // Clipping and trust ratios are no special case.
  EXPECT_USER_ERROR(schedule.fuse("all", {"sum.part", "length.part", "w1.part", "w1.whole"}), "fuse(all,",
                    "section-order");
  schedule.fuse("norms", {"sum.part", "length.part"}).fuse("updates", {"w1.part", "w1.whole", "w1"});
}

// CoCoNet's figure of a pipeline border.
TEST(Transformations, DeriveTheSchedulesOfABorder) {
  ProgramBuilder p("border", 2);
  const auto in = p.tensor("in", ElementType::fp32, {"B", "S", "H"}, Distribution::local()),
             b = p.tensor("b", ElementType::fp32, {"H"}), r = p.tensor("r", ElementType::fp32, {"B", "S", "H"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, in));
  const auto c = p.let("c", dropout(sum + b, 0.1) + r);
  Schedule schedule(p.returns({p.let("out", send(c))}));
  const Program original = schedule.program();
  schedule.split("sum", reduce_scatter).reorder("sum", {"c", "out"});
  EXPECT_EQ(text_of(schedule.program()),
            (Lines{"sum.part = reduce_scatter(+, in, dim=0)", "c.part = dropout(sum.part + b, 0.1) + slice(r, dim=0)",
                   "out.part = send(c.part, GroupRank(GROUP+1, RANK))", "out = all_gather(out.part)"}));
  schedule.fuse("c_send", {"c.part", "out.part"}).overlap("all", {"sum.part", "c_send", "out"});
  EXPECT_EQ(schedule.program().sections().size(), 2u);

  Schedule ar_c_p2p_ag(original);
  ar_c_p2p_ag.split("c", SplitPolicy::slice).reorder("c", {"out"});
  EXPECT_EQ(text_of(ar_c_p2p_ag.program()).back(), "out = all_gather(out.part)");
}

TEST(Transformations, RefuseByARule) {
  Schedule s(adam());
  EXPECT_USER_ERROR(s.split("m1", reduce_scatter), "split(m1, reduce_scatter)", "takes an all_reduce",
                    "split-all-reduce");
  EXPECT_USER_ERROR(s.split("m1", SplitPolicy::slice), "not stored", "split-replicated");
  EXPECT_USER_ERROR(s.split("sums", reduce_scatter), "'sums'", "did you mean 'sum'?");
  EXPECT_USER_ERROR(s.join("sum"), "only reader", "all_reduce(+, g)", "rule join");
  EXPECT_USER_ERROR(s.reorder("sum", {"m1"}), "reorder-gather");
  EXPECT_USER_ERROR(s.as_slice("m"), "in slices of one dim only", "as-slice-reads");
  EXPECT_USER_ERROR(s.dead("m1"), "that nobody reads", "rule dead");
  s.split("sum", reduce_scatter);
  EXPECT_USER_ERROR(s.reorder("sum", {"sum.part"}), "reorder-reads");
  EXPECT_USER_ERROR(s.reorder_back("x", "sum.part", {"m1"}), "reorder-back");
  s.reorder("sum", {"m1", "v1", "w1"});
  EXPECT_USER_ERROR(s.dead("m1.whole"), "rule dead");
  s.fuse("f", {"m1.part", "v1.part"});
  EXPECT_USER_ERROR(s.split("m1.part", SplitPolicy::slice), "'m1.part' in 'f'", "rule sections");
}

TEST(Transformations, ParseFromText) {
  const auto log = parse_transformations("# Adam\nsplit(sum, reduce, root=2)\n  reorder(sum, m1, w1) # past\n", "f");
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(to_text(log), "split(sum, reduce, root=2)\nreorder(sum, m1, w1)\n");
  EXPECT_USER_ERROR(parse_transformations("\nfuze(a, b)", "f"), "f:2: a transformation must be one of",
                    "did you mean 'fuse'?");
  EXPECT_USER_ERROR(parse_transformations("split(a)", "f"), "f:1", "split needs reduce_scatter, reduce or slice");
  EXPECT_USER_ERROR(parse_transformations("split(a, slices)", "f"), "did you mean 'slice'?");
  EXPECT_USER_ERROR(parse_transformations("fuse(a, dim=1)", "f"), "only split takes dim=");
  EXPECT_USER_ERROR(parse_transformations("split(a, slice, dim=x)", "f"), "a number from 0 on");
  EXPECT_USER_ERROR(parse_transformations("dead", "f", 7), "f:7", "expected NAME(ARGUMENT, ...)");
  EXPECT_USER_ERROR(parse_transformations("dead(a b)", "f"), "expected names of values");
}

}  // namespace
}  // namespace axonn::coconet
