#include "axonn/coconet/plan/schedule_plan.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "coconet/support/figures.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

constexpr int64_t kElements = 1 << 20;

double per_element(double bytes) { return bytes / kElements; }

PlanCounts counts_of(const Schedule& schedule, int ranks) {
  return SchedulePlan(schedule.program()).counts({{"N", kElements}}, ranks);
}

// The bytes that leave the caches if nothing is read twice.
TEST(Plan, CountsTheMemoryBytesOfAdam) {
  for (const int ranks : {1, 2, 4, 8}) {
    const double r = ranks;
    EXPECT_NEAR(per_element(counts_of(figures::ar_opt(), ranks).memory_bytes), 36, 1e-3);
    EXPECT_NEAR(per_element(counts_of(figures::rs_opt_ag(), ranks).memory_bytes), 4 + 36 / r + 4 * (r - 1) / r, 1e-3);
    EXPECT_NEAR(per_element(counts_of(figures::fuse_rs_opt_ag(), ranks).memory_bytes), 4 + 24 / r + 4 * (r - 1) / r,
                1e-3);
    EXPECT_NEAR(per_element(counts_of(figures::clipped_fuse(), ranks).memory_bytes), 4 + 32 / r + 4 * (r - 1) / r,
                1e-3);
  }
}

TEST(Plan, CountsLaunchesBytesSentAndState) {
  const PlanCounts all_reduce = counts_of(figures::ar_opt(), 4), separate = counts_of(figures::rs_opt_ag(), 4),
                   fused = counts_of(figures::fuse_rs_opt_ag(), 4);
  EXPECT_EQ(all_reduce.launches, 2);
  EXPECT_EQ(separate.launches, 3);
  EXPECT_EQ(fused.launches, 1);
  EXPECT_EQ(per_element(all_reduce.bytes_sent), 6);  // 2 (R - 1) / R of 4 bytes
  EXPECT_EQ(per_element(separate.bytes_sent), 6);
  EXPECT_EQ(per_element(fused.bytes_sent), 6);
  EXPECT_EQ(per_element(all_reduce.state_bytes), 12);
  EXPECT_EQ(per_element(fused.state_bytes), 4 + 2);  // the weights are whole, the moments a quarter
}

// A chain of statements, each on the one before.
Program chain(Distribution given, const std::vector<std::function<Expression(const Expression&)>>& links) {
  ProgramBuilder p("chain");
  Expression last = p.tensor("x", ElementType::fp32, {"N"}, given);
  for (size_t i = 0; i < links.size(); ++i) last = p.let("v" + std::to_string(i), links[i](last));
  return p.returns({last});
}

// CoCoNet's table: fusing saves launches and what the collective and the computation pass on
// through memory, and sends the same bytes.
TEST(Plan, CountsEachFusedCollectiveBesideItsUnfusedForm) {
  const auto twice = [](const Expression& x) { return 2 * x; };
  const auto scatter = [](const Expression& x) { return reduce_scatter(ReduceOp::sum, x); };
  const auto gather = [](const Expression& x) { return all_gather(x); };
  const auto half = [](const Expression& x) { return 2 * slice(x); };
  struct Case {
    const char* collective;
    Program program;
    int launches;           // unfused
    double unfused, fused;  // bytes of memory per element, on 4 ranks
  };
  for (const Case& one :
       std::vector<Case>{{"all_reduce", chain(Distribution::local(), {scatter, twice, gather}), 3, 11, 7},
                         {"reduce_scatter", chain(Distribution::local(), {scatter, twice}), 2, 7, 5},
                         {"all_gather", chain(Distribution::replicated(), {half, gather}), 2, 6, 4}}) {
    std::vector<std::string> all;
    for (const Statement& statement : one.program.statements()) all.push_back(statement.name);
    const PlanCounts unfused = counts_of(Schedule(one.program), 4),
                     fused = counts_of(Schedule(one.program).fuse("fused", all), 4);
    EXPECT_EQ(unfused.launches, one.launches) << one.collective;
    EXPECT_EQ(fused.launches, 1) << one.collective;
    EXPECT_EQ(fused.bytes_sent, unfused.bytes_sent) << one.collective;
    EXPECT_EQ(per_element(unfused.memory_bytes), one.unfused) << one.collective;
    EXPECT_EQ(per_element(fused.memory_bytes), one.fused) << one.collective;
  }
}

TEST(Plan, IsText) {
  EXPECT_EQ(SchedulePlan(figures::clipped_fuse().program()).to_text(),
            R"(plan of clipped_adam
buffers
  g fp32 [N] local, overwritten
  w fp32 [N] replicated, state
  m fp32 [N] sliced(0), state
  v fp32 [N] sliced(0), state
  length.part fp64 [] local, made for the run
steps
  1 fused sums, reduce_scatter(+, g, dim=0), computes length.part
    reads -; writes g (part), length.part; waits for -
  2 collective length.sum, all_reduce(+, length.part)
    reads -; writes -; waits for 1
  3 scalars length
    reads -; writes -; waits for 2
  4 scalars scale
    reads -; writes -; waits for 3
  5 fused updates, computes m1.part v1.part w1.part, all_gather(w1.part) into w
    reads m (part), g (part), v (part), w (part); writes m (part), v (part), w (part); waits for 1, 4
)");
}

TEST(Plan, ReadsPartsOfAProducerInOneCollective) {
  EXPECT_EQ(SchedulePlan(figures::overlapped_sum(figures::row_parallel(ElementType::fp32)).program()).to_text(),
            R"(plan of row_parallel
buffers
  x fp32 [M, K] local
  w fp32 [K, H] local
  bias fp32 [H] replicated
  residual fp32 [M, H] replicated
  layer fp32 [M, H] local, made for the run
  out fp32 [M, H] replicated, made for the run
steps
  1 layer layer
    reads x, w; writes layer; waits for -
  2 fused c, reduce_scatter(+, layer, dim=0), computes out.part, all_gather(out.part) into out, part by part with layer
    reads bias, residual (part); writes -; waits for -
)");
}

TEST(Plan, MovesTheSlicesOfABorderInOneStep) {
  const Program border = figures::pipeline_border(ElementType::fp32);
  EXPECT_EQ(SchedulePlan(figures::overlapped_border(border).program()).to_text(),
            R"(plan of pipeline_border
buffers
  in fp32 [B, H] local, overwritten
  b fp32 [H] replicated
  r fp32 [B, H] replicated
  out fp32 [B, H] replicated on 1, made for the run
steps
  1 transfer all on 0, reduce_scatter(+, in, dim=0), computes c.part, send(c.part, GroupRank(GROUP+1, RANK)))"
            R"(, all_gather(out.part) into out, part by part
    reads b, r (part); writes -; waits for -
)");
}

// Per rank, both groups: what is sent in the ways of CoCoNet's section on pipeline parallelism.
TEST(Plan, CountsTheWaysOverABorder) {
  const Program border = figures::pipeline_border(ElementType::fp32);
  const auto sent = [](const Schedule& schedule) {
    return SchedulePlan(schedule.program()).counts({{"B", 1024}, {"H", 1024}}, 4).bytes_sent / (1 << 20);
  };
  EXPECT_EQ(sent(Schedule(border)), 6 + 4);
  EXPECT_EQ(sent(figures::ar_c_p2p_ag(border)), 6 + 1 + 3);
  EXPECT_EQ(sent(figures::rs_c_p2p_ag(border)), 3 + 1 + 3);
  EXPECT_EQ(sent(figures::overlapped_border(border)), 3 + 1 + 3);
  const auto launches = [](const Schedule& schedule) {
    return SchedulePlan(schedule.program()).counts({{"B", 1024}, {"H", 1024}}, 4).launches;
  };
  EXPECT_EQ(launches(Schedule(border)), 3);
  EXPECT_EQ(launches(figures::ar_c_p2p_ag(border)), 4);
  EXPECT_EQ(launches(figures::rs_c_p2p_ag(border)), 4);
  EXPECT_EQ(launches(figures::overlapped_border(border)), 1);
}

// A border after `made`, whose schedule is RS, fuse(C-P2P), AG. `members` are overlapped.
SchedulePlan border_plan(const std::vector<std::string>& members, const Expression& c, ReduceOp reduction,
                         const std::vector<std::string>& returned = {"out"}) {
  ProgramBuilder p("border", 2);
  const auto x = p.tensor("x", ElementType::fp32, {"N", "K"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"K", "K"}), r = p.tensor("r", ElementType::fp32, {"N", "K"});
  p.tensor("m", ElementType::fp32, {"N", "K"}, Distribution::sliced(0));
  p.let("part", reduce_scatter(reduction, p.let("layer", matmul(x, w))));
  p.let("c", c);
  p.let("out", all_gather(p.let("there", send(Expression::reference("c")))));
  std::vector<Expression> outputs;
  for (const std::string& name : returned) outputs.push_back(Expression::reference(name));
  Schedule schedule(p.returns(outputs));
  return SchedulePlan(schedule.fuse("f", {"c", "there"}).overlap("o", members).program());
}

TEST(Plan, RefusesTransfersByName) {
  const auto part = Expression::reference("part"), r = Expression::reference("r"), m = Expression::reference("m");
  const Expression c = part + slice(r);
  constexpr ReduceOp sum = ReduceOp::sum;
  EXPECT_EQ(border_plan({"part", "f", "out"}, c, sum).steps().size(), 2u);
  const char* const needs =
      "overlap o: needs reduce_scatter(+, ...), computations fused with one send, and the all_gather";
  EXPECT_USER_ERROR(border_plan({"layer", "part", "f", "out"}, c, sum), needs, "got layer = matmul(x, w), part = ");
  EXPECT_USER_ERROR(border_plan({"part", "f"}, c, sum), needs);
  EXPECT_USER_ERROR(border_plan({"f", "out"}, c, sum), needs);
  EXPECT_USER_ERROR(border_plan({"part", "f", "out"}, c, ReduceOp::max), needs);
  EXPECT_USER_ERROR(border_plan({"part", "f", "out"}, part + m, sum), "overlap o: m lies in slices");
  EXPECT_USER_ERROR(border_plan({"part", "f", "out"}, c, sum, {"out", "part"}), "overlap o: part lies in slices");
  EXPECT_USER_ERROR(border_plan({"part", "f", "out"}, c, sum, {"out", "c"}), "overlap o: c lies in slices");
  EXPECT_USER_ERROR(border_plan({"part", "f", "out"}, cast(c, ElementType::bf16), sum),
                    "overlap o: needs one type of what is summed and sent, got fp32 [N, K] sliced(0) and bf16");
  ProgramBuilder p("slices", 2);
  const auto own = p.tensor("own", ElementType::fp32, {"N"}, Distribution::sliced(0));
  Schedule slices(p.returns({p.let("out", all_gather(p.let("there", send(own))))}));
  EXPECT_USER_ERROR(SchedulePlan(slices.overlap("o", {"there", "out"}).program()),
                    "overlap o: own lies in slices, and other slices than the parts; send a slice() of a whole value");
}

// Results of the first parts arrive while later rows still read the weights.
TEST(Plan, PutsNoResultWhereTheProducerOfAnOverlapReads) {
  ProgramBuilder p("stored");
  const auto x = p.tensor("x", ElementType::fp32, {"M", "M"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"M", "M"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, p.let("layer", matmul(x, w))));
  const Schedule plain(p.returns({p.let("w1", update(w, sum))}));
  const auto home_of_sum = [](const Schedule& schedule) {
    const SchedulePlan plan(schedule.program());
    return plan.name(plan.home(plan.value("sum")));
  };
  EXPECT_EQ(home_of_sum(plain), "w");
  Schedule overlapped = plain;
  overlapped.overlap("both", {"layer", "sum"});
  EXPECT_NE(home_of_sum(overlapped), "w");
}

TEST(Plan, RefusesByNameWhatNothingRuns) {
  EXPECT_USER_ERROR(SchedulePlan(figures::ar_opt().fuse("all", {"sum", "opt"}).program()), "fuse all",
                    "split(sum, reduce_scatter)");
}

// y = 2 g on every rank, its sum, and what is made of it: the overlap of `members` after `prepare`.
SchedulePlan overlap_plan(
    const std::vector<std::string>& members, const std::function<void(Schedule&)>& prepare = [](Schedule&) {},
    bool with_norm = false) {
  ProgramBuilder p("overlapped");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             m = p.tensor("m", ElementType::fp32, {"N"}), w = p.tensor("w", ElementType::fp32, {"N"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, p.let("y", 2 * g)));
  const auto m1 = p.let("m1", update(m, m + sum));
  std::vector<Expression> outputs = {p.let("out", w + m1)};
  if (with_norm) outputs.push_back(p.let("length", norm(sum)));
  Schedule schedule(p.returns(outputs));
  prepare(schedule);
  return SchedulePlan(schedule.overlap("o", members).program());
}

void split_the_sum(Schedule& schedule) {
  schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"m1", "out"});
}

TEST(Plan, RefusesOverlapsByName) {
  const SchedulePlan both = overlap_plan({"y", "sum"});
  EXPECT_EQ(both.steps()[0].name, "y");
  EXPECT_TRUE(both.steps()[1].by_parts);
  EXPECT_USER_ERROR(overlap_plan({"m1", "out"}), "overlap o: needs one producer and then one collective",
                    "got kernel m1, kernel out");
  EXPECT_USER_ERROR(overlap_plan({"sum", "m1"}), "got collective sum, kernel m1");
  EXPECT_USER_ERROR(overlap_plan({"y", "sum", "m1"}), "got kernel y, collective sum, kernel m1",
                    "fuse the computations before it, and those after it with it");
  EXPECT_USER_ERROR(overlap_plan({"y", "sum.part"}, split_the_sum), "sum.part must be an all_reduce, or");
  EXPECT_USER_ERROR(overlap_plan({"sum.part", "m1.part", "out.part", "out"}, split_the_sum),
                    "sum.part and out are in one queue, and would wait for each other in a circle");
  const auto with_slices = [](Schedule& schedule) {
    split_the_sum(schedule);
    schedule.as_slice("m").dead("m1.whole").fuse("f", {"sum.part", "m1.part", "m1", "out.part", "out"});
  };
  EXPECT_USER_ERROR(overlap_plan({"y", "f"}, with_slices), "overlap o: m1.part lies in slices", "slice()");
  const auto with_a_part_for_later = [](Schedule& schedule) {
    split_the_sum(schedule);
    schedule.fuse("f", {"sum.part", "m1.part", "out.part", "out"});
  };
  EXPECT_USER_ERROR(overlap_plan({"y", "f"}, with_a_part_for_later), "overlap o: m1.part lies in slices");
  const auto with_a_norm = [](Schedule& schedule) {
    schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"m1", "out", "length"});
    schedule.fuse("f", {"sum.part", "length.part", "m1.part", "m1.whole", "m1"});
  };
  EXPECT_USER_ERROR(overlap_plan({"y", "f"}, with_a_norm, /*with_norm=*/true), "length.part is a sum over a slice");
}

TEST(Plan, RefusesOverlapsOfOtherValuesAndOfConvolutions) {
  ProgramBuilder p("other");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"});
  const auto y = p.let("y", 2 * w), part = p.let("part", reduce_scatter(ReduceOp::sum, g));
  Schedule other(p.returns({p.let("out", all_gather(p.let("own", part + slice(y))))}));
  other.fuse("f", {"part", "own", "out"}).overlap("o", {"y", "f"});
  EXPECT_USER_ERROR(SchedulePlan(other.program()), "overlap o: part sums g, which y does not compute");
  ProgramBuilder s("slices");
  const auto mine = s.tensor("mine", ElementType::fp32, {"N"}, Distribution::local()),
             r = s.tensor("r", ElementType::fp32, {"N"}, Distribution::sliced(0));
  const auto sums = s.let("sums", reduce_scatter(ReduceOp::sum, s.let("twice", 2 * mine)));
  Schedule slices(s.returns({s.let("all", all_gather(s.let("own", sums + r)))}));
  slices.fuse("f", {"sums", "own", "all"}).overlap("o", {"twice", "f"});
  EXPECT_USER_ERROR(SchedulePlan(slices.program()), "overlap o: r lies in slices");
  ProgramBuilder images("images");
  const auto x = images.tensor("x", ElementType::fp32, {"B", "C", "P", "Q"}, Distribution::local()),
             kernel = images.tensor("kernel", ElementType::fp32, {"C", "C", 1, 1});
  const auto layer = images.let("layer", conv2d(x, kernel));
  Schedule convolution(images.returns({images.let("sum", all_reduce(ReduceOp::sum, layer))}));
  EXPECT_USER_ERROR(SchedulePlan(convolution.overlap("o", {"layer", "sum"}).program()),
                    "parts of conv2d(x, kernel) cannot follow the messages");
}

Schedule fused_pair(const std::function<Expression(const Expression&)>& first,
                    const std::function<Expression(const Expression&)>& second) {
  ProgramBuilder p("pair");
  const auto w = p.tensor("w", ElementType::fp32, {"N"});
  const auto a = p.let("a", first(w)), b = p.let("b", second(w));
  return Schedule(p.returns({a, b})).fuse("both", {"a", "b"});
}

TEST(Plan, FusesOnlyWhatLiesAlike) {
  const auto whole = [](const Expression& w) { return 2 * w; };
  const auto part = [](const Expression& w) { return 2 * slice(w); };
  const auto root = [](int rank) { return [rank](const Expression& w) { return 2 * load(w, rank); }; };
  for (const auto& [first, second] : std::vector<
           std::pair<std::function<Expression(const Expression&)>, std::function<Expression(const Expression&)>>>{
           {whole, part}, {part, whole}, {whole, root(0)}, {part, root(0)}, {root(0), root(1)}})
    EXPECT_USER_ERROR(SchedulePlan(fused_pair(first, second).program()), "fuse both: needs values that lie alike");
  ProgramBuilder p("groups", 2);
  const auto here = p.let("a", 2 * p.tensor("w", ElementType::fp32, {"N"})),
             there = p.let("b", 2 * p.tensor("v", ElementType::fp32, {"N"}, Distribution::replicated(), 1));
  Schedule groups(p.returns({here, there}));
  EXPECT_USER_ERROR(SchedulePlan(groups.fuse("both", {"a", "b"}).program()),
                    "fuse both: needs values of one group, got a on 0 and b on 1");
  EXPECT_EQ(SchedulePlan(fused_pair(part, part).program()).steps().size(), 1u);
  EXPECT_EQ(SchedulePlan(fused_pair(root(1), root(1)).program()).steps().size(), 1u);
}

}  // namespace
}  // namespace axonn::coconet
