// Plans on threads as ranks: as the oracle says, and the same bits under every schedule.
#include "axonn/overlap/execute/plan_executor.hpp"

#include <cstdlib>
#include <optional>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "coconet/support/figures.hpp"
#include "coconet/support/rank_runs.hpp"
#include "support/user_error.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr int64_t kElements = 3 * 4096 + 77;
constexpr int64_t kOffset = 4096 * 5 - 300;

// Numbers with few bits, so that sums are exact in any order.
std::vector<double> dyadic(int64_t count, uint64_t seed) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<double>((static_cast<uint64_t>(i) * 2654435761u + seed * 97) % 31 + 1) / 16);
  return numbers;
}

OracleInputs inputs_of(const Program& program, const SizeValues& sizes, int ranks) {
  OracleInputs inputs;
  uint64_t seed = 0;
  for (const Declaration& declaration : program.declarations()) {
    if (declaration.type.is_scalar()) continue;
    const int64_t count = count_of(extents_of(declaration.type.shape, sizes));
    const int copies = declaration.type.distribution.is(coconet::Placement::local) ? ranks : 1;
    for (int rank = 0; rank < copies; ++rank) inputs[declaration.name].push_back(dyadic(count, ++seed));
  }
  return inputs;
}

OracleResult execute(const Program& program, const SizeValues& sizes, int ranks, const OracleInputs& inputs) {
  return run_on_ranks(program, inputs, {.ranks = ranks, .sizes = sizes}, kOffset);
}

void expect_oracle(const Program& program, const SizeValues& sizes, int ranks, const OracleInputs& inputs,
                   const OracleResult& result, double tolerance) {
  EXPECT_EQ(difference(run_oracle(program, inputs, {.ranks = ranks, .sizes = sizes}), result, tolerance), "")
      << program.name() << " on " << ranks << " ranks";
}

TEST(PlanExecutor, GivesTheOraclesNumbersAndTheSameBitsUnderEverySchedule) {
  const SizeValues sizes = {{"N", kElements}};
  for (const int ranks : {1, 2, 3, 4}) {
    const OracleInputs inputs = inputs_of(figures::adam(), sizes, ranks);
    std::optional<OracleResult> first;
    for (const Schedule& schedule :
         {Schedule(figures::adam()), figures::ar_opt(), figures::rs_opt_ag(), figures::fuse_rs_opt_ag()}) {
      const OracleResult result = execute(schedule.program(), sizes, ranks, inputs);
      expect_oracle(figures::adam(), sizes, ranks, inputs, result, 2e-6);
      if (!first) first = result;
      EXPECT_EQ(difference(*first, result, 0), "");
    }
  }
}

TEST(PlanExecutor, ClipsInsideOfASchedule) {
  const SizeValues sizes = {{"N", kElements}};
  for (const int ranks : {1, 2, 4}) {
    const OracleInputs inputs = inputs_of(figures::clipped_adam(), sizes, ranks);
    const OracleResult plain = execute(figures::clipped_adam(), sizes, ranks, inputs),
                       fused = execute(figures::clipped_fuse().program(), sizes, ranks, inputs);
    expect_oracle(figures::clipped_adam(), sizes, ranks, inputs, fused, 2e-6);
    EXPECT_EQ(difference(plain, fused, 0), "");
  }
}

// The value is in the tensor's place already, so no loop has the update.
TEST(PlanExecutor, ReadsAnUpdateThatIsOnlyAStore) {
  ProgramBuilder p("stores");
  const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp64, {"N"}), m = p.tensor("m", ElementType::fp64, {"N"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g)), mean = p.let("mean", 0.5 * m + sum);
  const auto m1 = p.let("m1", update(m, mean)), length = p.let("length", norm(m1));
  const Program plain = p.returns({length, p.let("w1", update(w, w - m1))});
  const Program fused = Schedule(plain).fuse("all", {"mean", "m1", "length", "w1"}).program();
  const SizeValues sizes = {{"N", kElements}};
  for (const int ranks : {1, 2}) {
    const OracleInputs inputs = inputs_of(plain, sizes, ranks);
    expect_oracle(plain, sizes, ranks, inputs, execute(plain, sizes, ranks, inputs), 1e-12);
    expect_oracle(plain, sizes, ranks, inputs, execute(fused, sizes, ranks, inputs), 1e-12);
  }
}

// A norm per row, and an operand per row: LAMB's shape.
TEST(PlanExecutor, KeepsOneNumberPerRow) {
  ProgramBuilder p("rows");
  const auto g = p.tensor("g", ElementType::fp32, {"T", "K"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"T", "K"}), decay = p.tensor("decay", ElementType::fp32, {"T", 1});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto u = p.let("u", sum + decay * w);
  const auto ratio = p.let("ratio", cast(norm(w, {1}) / norm(u, {1}), ElementType::fp32));
  Schedule schedule(p.returns({p.let("w1", update(w, w - 0.5 * ratio * u))}));
  const Program plain = schedule.program();
  schedule.split("sum", SplitPolicy::reduce_scatter, 1).reorder("sum", {"u", "ratio.2", "w1"});
  schedule.fuse("sums", {"sum.part", "u.part", "ratio.2.part"}).fuse("updates", {"w1.part", "w1.whole", "w1"});
  const SizeValues sizes = {{"T", 5}, {"K", 3001}};
  for (const int ranks : {1, 2, 3}) {
    const OracleInputs inputs = inputs_of(plain, sizes, ranks);
    const OracleResult all = execute(plain, sizes, ranks, inputs),
                       fused = execute(schedule.program(), sizes, ranks, inputs);
    expect_oracle(plain, sizes, ranks, inputs, fused, 2e-6);
    EXPECT_EQ(difference(all, fused, 0), "");
  }
}

// Sums over everything and over rows: kernels are cut for threads, the blocks of sums are not.
TEST(PlanExecutor, GivesTheSameBitsOnAnyNumberOfThreads) {
  ProgramBuilder p("norms");
  const auto g = p.tensor("g", ElementType::fp64, {"T", "K"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp64, {"T", "K"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto rows = p.let("rows", norm(w + 0.3 * sum, {1})), all = p.let("all", norm(sum));
  const auto next = p.let("w1", update(w, w - 0.1 / all * sum));
  const Program program = p.returns({rows, all, next});
  Schedule sliced(program);
  sliced.split("sum", SplitPolicy::reduce_scatter, 1).reorder("sum", {"all", "w1"});
  const SizeValues sizes = {{"T", 7}, {"K", 40'961}};
  const int before = at::get_num_threads();
  for (const int ranks : {1, 2})
    for (const Program& each : {program, sliced.program()}) {
      const OracleInputs inputs = random_inputs(program, {.ranks = ranks, .sizes = sizes}, 1);  // sums round
      at::set_num_threads(1);
      const OracleResult one = execute(each, sizes, ranks, inputs);
      expect_oracle(program, sizes, ranks, inputs, one, 1e-12);
      at::set_num_threads(4);
      EXPECT_EQ(difference(one, execute(each, sizes, ranks, inputs), 0), "");
    }
  at::set_num_threads(before);
}

// The executor hands the size over, and no bit depends on it.
TEST(PlanExecutor, SendsInMessagesOfASegment) {
  const SizeValues sizes = {{"N", 300'000}};
  setenv("AXONN_SHARED_MEMORY", "0", 1);
  const OracleInputs inputs = random_inputs(figures::adam(), {.ranks = 3, .sizes = sizes}, 1);
  for (const Schedule& schedule : {figures::ar_opt(), figures::rs_opt_ag(), figures::fuse_rs_opt_ag()}) {
    const auto with = [&](int64_t segment) {
      return run_on_ranks(schedule.program(), inputs, {.ranks = 3, .sizes = sizes}, 0, {.segment_bytes = segment});
    };
    EXPECT_EQ(difference(with(0), with(kSmallestSegment), 0), "");
    run_local(3, [&](Environment& environment) {
      const auto messages_of = [&](int64_t segment) {
        PlanExecutor executor(SchedulePlan(schedule.program()), environment.world(),
                              {.sizes = sizes, .run = {.segment_bytes = segment}});
        for (const Declaration& declaration : schedule.program().declarations())
          if (declaration.type.is_scalar()) executor.set(declaration.name, 1);
        const int64_t before = environment.world().counters().messages;
        executor.run();
        return environment.world().counters().messages - before;
      };
      EXPECT_GT(messages_of(kSmallestSegment), 4 * messages_of(64 << 10));
    });
  }
  unsetenv("AXONN_SHARED_MEMORY");
}

// Programs of fp64, which the executor runs as the oracle says.
void expect_oracle(const Program& program) {
  const SizeValues sizes = {{"N", 600}};
  for (const int ranks : {1, 2, 3}) {
    const OracleInputs inputs = inputs_of(program, sizes, ranks);
    expect_oracle(program, sizes, ranks, inputs, execute(program, sizes, ranks, inputs), 1e-12);
  }
}

TEST(PlanExecutor, KeepsAPartThatWasTakenBeforeAnUpdate) {
  ProgramBuilder p("parts");
  const auto w = p.tensor("w", ElementType::fp64, {"N"});
  const auto part = p.let("part", slice(w)), root = p.let("root", load(w));
  expect_oracle(p.returns({part, root, p.let("w1", update(w, 2 * w))}));
}

TEST(PlanExecutor, KeepsAnUpdatedTensorThatIsSummedLater) {
  ProgramBuilder p("sums");
  const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local());
  expect_oracle(p.returns({p.let("sum", all_reduce(ReduceOp::sum, p.let("g1", update(g, 2 * g))))}));
}

TEST(PlanExecutor, MovesNumbersToARootAndBack) {
  ProgramBuilder p("numbers");
  const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local());
  const auto rate = p.scalar("rate", 0.5);
  const auto mine = p.let("mine", reduce_tensor(ReduceOp::max, g));
  const auto all = p.let("all", broadcast(p.let("sum", reduce(ReduceOp::sum, mine))));
  const auto there = p.let("there", load(rate));
  expect_oracle(p.returns({p.let("y", g * all), p.let("z", there + 1)}));
}

TEST(PlanExecutor, FusesWithNumbersAndStoresWhatIsGatheredTwice) {
  ProgramBuilder p("fused");
  const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp64, {"N"}), m = p.tensor("m", ElementType::fp64, {"N"});
  const auto rate = p.scalar("rate", 0.5);
  const auto sum = p.let("sum", reduce_scatter(ReduceOp::sum, g));
  const auto twice = p.let("twice", 2 * rate), there = p.let("there", load(rate)), part = p.let("part", twice * sum);
  const auto whole = p.let("whole", all_gather(part));
  const Program plain =
      p.returns({p.let("m1", update(m, whole)), p.let("w1", update(w, whole)), p.let("y", there + 1)});
  Schedule schedule(plain);
  schedule.fuse("all", {"sum", "twice", "there", "part", "whole", "m1", "w1"});
  expect_oracle(schedule.program());
}

// Several parts per rank, whose ends lie within rows.
TEST(PlanExecutor, OverlapsAProductWithItsSum) {
  const SizeValues sizes = {{"M", 1001}, {"K", 7}, {"H", 33}};
  const Program plain = figures::row_parallel(ElementType::fp64);
  Schedule whole(plain);
  whole.overlap("both", {"layer", "sum"});
  const Program fused = figures::overlapped_sum(plain).program();
  for (const int ranks : {1, 2, 3, 4}) {
    const OracleInputs inputs = inputs_of(plain, sizes, ranks);
    for (const Program& program : {whole.program(), fused})
      for (const int64_t rows : {0, 1, 50, 5000})
        expect_oracle(plain, sizes, ranks, inputs,
                      run_on_ranks(program, inputs, {.ranks = ranks, .sizes = sizes}, kOffset, {.part_rows = rows}),
                      1e-12);
  }
}

// CoCoNet's figure of self-attention: every rank has columns of `in` and rows of `w`, some ranks
// none. Also where it takes them from whole tensors.
TEST(PlanExecutor, MultipliesOperandsThatAreCutAlongTheSummedDim) {
  const SizeValues sizes = {{"B", 3}, {"S", 67}, {"K", 3}, {"H", 41}};
  ProgramBuilder p("slices");
  const auto x = p.tensor("x", ElementType::fp64, {"B", "S", "K"}), w = p.tensor("w", ElementType::fp64, {"K", "H"});
  const auto layer = p.let("layer", matmul(slice(x, 2), slice(w, 0)));
  const Program slices = p.returns({p.let("out", 2 * p.let("sum", all_reduce(ReduceOp::sum, layer)))});
  for (const Program& plain : {figures::self_attention(ElementType::fp64), slices}) {
    Schedule whole(plain), split(plain);
    whole.overlap("both", {"layer", "sum"});
    split.split("sum", SplitPolicy::reduce_scatter, 1).reorder("sum", {"out"});
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const OracleInputs inputs = inputs_of(plain, sizes, ranks);
      for (const Program& program : {plain, whole.program(), split.program(), figures::overlapped_sum(plain).program()})
        expect_oracle(plain, sizes, ranks, inputs, execute(program, sizes, ranks, inputs), 1e-12);
    }
  }
}

TEST(PlanExecutor, RunsTheFigureInItsOwnType) {
  const SizeValues sizes = {{"B", 2}, {"S", 50}, {"K", 6}, {"H", 40}};
  const Program plain = figures::self_attention(ElementType::fp16);
  const OracleInputs inputs = inputs_of(plain, sizes, 2);
  for (const Program& program : {plain, figures::overlapped_sum(plain).program()})
    expect_oracle(plain, sizes, 2, inputs, execute(program, sizes, 2, inputs), 2e-3);
}

// CoCoNet's schedules of a border: AR-C-P2P, AR-C-P2P-AG, RS-C-P2P-AG, RS-fuse(C-P2P)-AG,
// AR-C-ol(P2P, AG), ol(fuse(RS-C-P2P), AG), ol(RS, fuse(C-P2P), AG). All but those that send parts
// of a buffer, whose additions have another order, have the same bits.
TEST(PlanExecutor, SendsToAnotherGroup) {
  const SizeValues sizes = {{"B", 230}, {"H", 301}};  // several parts of 60 KiB per rank
  const Program plain = figures::pipeline_border(ElementType::fp64);
  Schedule fused = figures::rs_c_p2p_ag(plain), gathered = figures::ar_c_p2p_ag(plain),
           whole = figures::rs_c_p2p_ag(plain);
  fused.fuse("c_p2p", {"c.part", "out.part"});
  gathered.overlap("all", {"out.part", "out"});
  whole.fuse("f", {"sum.part", "c.part", "out.part"}).overlap("all", {"f", "out"});
  for (const int ranks : {1, 2, 3, 4}) {
    const OracleInputs inputs = random_inputs(plain, {.ranks = ranks, .sizes = sizes}, 1);
    const OracleResult first = execute(plain, sizes, ranks, inputs);
    for (const Schedule& same :
         {Schedule(plain), figures::ar_c_p2p_ag(plain), figures::rs_c_p2p_ag(plain), fused, gathered}) {
      const OracleResult result = execute(same.program(), sizes, ranks, inputs);
      expect_oracle(plain, sizes, ranks, inputs, result, 1e-12);
      EXPECT_EQ(difference(first, result, 0), "");
    }
    for (const Schedule& parts : {whole, figures::overlapped_border(plain)})
      expect_oracle(plain, sizes, ranks, inputs, execute(parts.program(), sizes, ranks, inputs), 1e-12);
  }
}

// Values of every kind, there and back, over three groups; what is sent is still read, or is what
// the other group stores.
TEST(PlanExecutor, SendsValuesOfEveryDistribution) {
  const SizeValues sizes = {{"N", 9001}};
  ProgramBuilder p("kinds", 3);
  const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp64, {"N"}),
             m = p.tensor("m", ElementType::fp64, {"N"}, Distribution::sliced(0)),
             next = p.tensor("next", ElementType::fp64, {"N"}, Distribution::sliced(0), 2);
  const auto local = p.let("local", send(p.let("twice", 2 * g), 2));
  const auto number = p.let("number", send(p.let("length", norm(w))));
  const auto root = p.let("root", send(p.let("there", load(w)), 1)), back = p.let("back", send(root, -1));
  const auto slices = p.let("slices", send(m + slice(w), 2));
  const auto stored = p.let("stored", update(next, slices));
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, local));
  const Program plain = p.returns({p.let("y", sum + p.let("all", all_gather(stored))), p.let("z", number + 1),
                                   p.let("w1", 3 * p.let("again", broadcast(back)))});
  for (const int ranks : {1, 2, 3}) {
    const OracleInputs inputs = inputs_of(plain, sizes, ranks);
    expect_oracle(plain, sizes, ranks, inputs, execute(plain, sizes, ranks, inputs), 1e-12);
  }
}

// Without C; and contributions that others read, too.
TEST(PlanExecutor, OverlapsASumWithItsTransfer) {
  const SizeValues sizes = {{"N", 50'001}};
  for (const bool read_again : {false, true}) {
    ProgramBuilder p("sums", 2);
    const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local()),
               w = p.tensor("w", ElementType::fp64, {"N"}, Distribution::replicated(), 1);
    const auto there = p.let("there", send(p.let("sum", all_reduce(ReduceOp::sum, g))));
    const auto w1 = p.let("w1", update(w, there));
    std::vector<Expression> outputs = {w1};
    if (read_again) outputs.push_back(p.let("twice", 2 * g));
    Schedule schedule(p.returns(outputs));
    const Program plain = schedule.program();
    schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"there"});
    schedule.overlap("all", {"sum.part", "there.part", "there"});
    for (const int ranks : {1, 2, 3}) {
      const OracleInputs inputs = inputs_of(plain, sizes, ranks);
      expect_oracle(plain, sizes, ranks, inputs, execute(schedule.program(), sizes, ranks, inputs), 1e-12);
    }
  }
}

// The summand stays, or its sum is put in its place; also as a tensor's next value.
TEST(PlanExecutor, OverlapsComputationsWithTheirSum) {
  const SizeValues sizes = {{"N", 300'001}};
  for (const bool stays : {true, false}) {
    ProgramBuilder p("summand");
    const auto g = p.tensor("g", ElementType::fp64, {"N"}, Distribution::local()),
               w = p.tensor("w", ElementType::fp64, {"N"}), m = p.tensor("m", ElementType::fp64, {"N"});
    const auto square = p.let("square", g * g), y = p.let("y", square - w);
    const auto w1 = p.let("w1", update(w, p.let("sum", all_reduce(ReduceOp::sum, y)) + m));
    Schedule schedule(p.returns(stays ? std::vector<Expression>{w1, y} : std::vector<Expression>{w1}));
    const Program plain = schedule.program();
    schedule.fuse("producer", {"square", "y"}).overlap("both", {"producer", "sum"});
    for (const int ranks : {1, 2, 3}) {
      const OracleInputs inputs = inputs_of(plain, sizes, ranks);
      expect_oracle(plain, sizes, ranks, inputs, execute(schedule.program(), sizes, ranks, inputs), 1e-12);
    }
  }
}

TEST(PlanExecutor, RefusesByNameWhatItCannotRun) {
  run_local(1, [](Environment& environment) {
    const auto executor = [&](const Program& program) {
      PlanExecutor(SchedulePlan(program), environment.world(), {.sizes = {{"N", 4}, {"K", 3}}});
    };
    ProgramBuilder two("two", 2);
    const auto w = two.tensor("w", ElementType::fp32, {"N"});
    const Program border = two.returns({two.let("y", send(w))});
    EXPECT_USER_ERROR(executor(border), "two: sends between 2 groups; give the executor the Environment of a job");
    EXPECT_USER_ERROR(PlanExecutor(SchedulePlan(border), environment, {.sizes = {{"N", 4}}}),
                      "two has 2 groups of equally many ranks: start a multiple of 2 ranks, got 1");
    ProgramBuilder rows("rows");
    const auto a = rows.tensor("a", ElementType::fp32, {"N", "K"});
    EXPECT_USER_ERROR(executor(rows.returns({rows.let("y", reduce_tensor(ReduceOp::sum, a, {0}))})),
                      "sums must be over the last dims");
    ProgramBuilder parts("parts");
    const auto whole = parts.tensor("whole", ElementType::fp32, {"N", "K"});
    EXPECT_USER_ERROR(executor(parts.returns({parts.let("y", reduce_tensor(ReduceOp::max, slice(whole), {1}))})),
                      "y: all sliced tensors need one shape, got [N, K] beside [N, 1]");
    ProgramBuilder columns("columns");
    const auto x = columns.tensor("x", ElementType::fp32, {"N", "K"}),
               y = columns.tensor("y", ElementType::fp32, {"K", "N"}, Distribution::sliced(1));
    EXPECT_USER_ERROR(executor(columns.returns({columns.let("z", matmul(x, y))})),
                      "z: needs a matmul of whole operands", "cut along the dim that it sums, got matmul(x, y)");
    ProgramBuilder blocks("blocks");
    const auto p = blocks.tensor("p", ElementType::fp32, {"N", "K"}, Distribution::sliced(1)),
               q = blocks.tensor("q", ElementType::fp32, {"K", "N"}, Distribution::sliced(0));
    EXPECT_USER_ERROR(executor(blocks.returns({blocks.let("z", matmul(p, q)), blocks.let("twice", 2 * p)})),
                      "cut along the dim that it sums, got matmul(p, q)");
    ProgramBuilder dropped("dropped");
    const auto b = dropped.tensor("b", ElementType::fp32, {"N", "K"}),
               c = dropped.tensor("c", ElementType::fp32, {"K"});
    EXPECT_USER_ERROR(executor(dropped.returns({dropped.let("y", b + dropout(c, 0.5))})),
                      "dropout needs a tensor of the loop's shape [N, K], got [K]");
    ProgramBuilder number("number");
    const auto rate = number.scalar("rate", 0.5);
    EXPECT_USER_ERROR(executor(number.returns({number.let("y", dropout(rate, 0.5))})), "got []");
    const auto large = [&](int64_t size) {
      PlanExecutor(SchedulePlan(figures::adam()), environment.world(), {.sizes = {{"N", size}}});
    };
    EXPECT_USER_ERROR(large(int64_t{1} << 50), "adam needs 16.00 PiB per rank", "choose smaller sizes");
    ProgramBuilder product("product");
    const auto r = product.tensor("r", ElementType::fp32, {"N", "N"});
    const Program square = product.returns({product.let("z", matmul(r, r))});
    EXPECT_USER_ERROR(PlanExecutor::check_size(SchedulePlan(square), {{"N", 20'000'000}}, 1 << 20, 1), "product needs ",
                      " per rank for its values");
    EXPECT_USER_ERROR(PlanExecutor::check_size(SchedulePlan(product.returns({product.let("u", norm(matmul(r, r)))})),
                                               {{"N", int64_t{1} << 40}}, 1, 1),
                      "1099511627776*1099511627776");
    PlanExecutor adam(SchedulePlan(figures::adam()), environment.world(), {.sizes = {{"N", 4}}});
    EXPECT_USER_ERROR(adam.set("rate", 1), "'rate' must be a declared scalar of adam");
    EXPECT_USER_ERROR(adam.bind("w", at::Tensor(adam.memory("w").narrow(0, 0, 2))), "must be 4 contiguous elements");
  });
}

TEST(PlanExecutor, RefusesByNameWhatOfAnotherGroupIsAskedFor) {
  run_local(2, [](Environment& environment) {
    const Program border = figures::pipeline_border(ElementType::fp32);
    PlanExecutor executor(SchedulePlan(border), environment, {.sizes = {{"B", 4}, {"H", 3}}});
    EXPECT_USER_ERROR(executor.memory(environment.rank() == 0 ? "out" : "sum"), "ask its ranks, this one is in group ");
    PlanExecutor overlapped(SchedulePlan(figures::overlapped_border(border).program()), environment,
                            {.sizes = {{"B", 4}, {"H", 3}}});
    EXPECT_USER_ERROR(overlapped.memory("out.part"), "out.part stays in registers or messages");
    ProgramBuilder p("numbers", 2);
    const auto w = p.tensor("w", ElementType::fp32, {"N"});
    const auto half = p.let("half", 0.5 * p.let("length", norm(w)));
    const Schedule schedule = Schedule(p.returns({p.let("out", send(half))})).fuse("f", {"half", "out"});
    EXPECT_USER_ERROR(PlanExecutor(SchedulePlan(schedule.program()), environment, {.sizes = {{"N", 4}}}),
                      "fuse f: out is a number; leave its send out of the section");
  });
}

}  // namespace
}  // namespace axonn
