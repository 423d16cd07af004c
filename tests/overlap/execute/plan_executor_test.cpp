// Plans on threads as ranks: as the oracle says, and the same bits under every schedule.
#include "axonn/overlap/execute/plan_executor.hpp"

#include <mutex>

#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/overlap/oracle/oracle.hpp"
#include "overlap/support/figures.hpp"
#include "support/user_error.hpp"

namespace axonn::overlap {
namespace {

constexpr int64_t kElements = 3 * 4096 + 77;
constexpr int64_t kOffset = 4096 * 5 - 300;

// What rank 0 has in the end: values of whole tensors, by name.
using Values = std::map<std::string, at::Tensor>;

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
    const int copies = declaration.type.distribution.is(Placement::local) ? ranks : 1;
    for (int rank = 0; rank < copies; ++rank) inputs[declaration.name].push_back(dyadic(count, ++seed));
  }
  return inputs;
}

// Runs on `ranks` threads; sliced tensors are put together at the end.
Values execute(const Program& program, const SizeValues& sizes, int ranks, const OracleInputs& inputs) {
  Values values;
  std::mutex mutex;
  run_local(ranks, [&](Environment& environment) {
    PlanExecutor executor(SchedulePlan(program), environment.world(), {.sizes = sizes, .arena_offset = kOffset});
    const int rank = environment.rank();
    const BlockOwners owners(ranks);
    const auto own_ranges = [&](int64_t count) { return owners.ranges(rank, {kOffset, kOffset + count}); };
    for (const auto& [name, parts] : inputs) {
      const std::vector<double>& numbers = parts.size() > 1 ? parts[static_cast<size_t>(rank)] : parts[0];
      const at::Tensor whole = at::from_blob(const_cast<double*>(numbers.data()), {std::ssize(numbers)}, at::kDouble);
      at::Tensor memory = executor.memory(name);
      if (!program.type(name).distribution.is(Placement::sliced)) {
        memory.copy_(whole);
        continue;
      }
      int64_t done = 0;
      for (const Range& range : own_ranges(whole.numel())) {
        memory.narrow(0, done, range.size()).copy_(whole.narrow(0, range.begin - kOffset, range.size()));
        done += range.size();
      }
    }
    executor.run();
    const std::lock_guard lock(mutex);
    for (const auto& [name, parts] : inputs) {
      if (program.update_of(name) == nullptr) continue;
      const at::Tensor memory = executor.memory(name);
      if (!program.type(name).distribution.is(Placement::sliced)) {
        const bool first = values.emplace(name, memory.clone()).second;
        EXPECT_TRUE(first || at::equal(values[name], memory)) << name << " on rank " << rank;
        continue;
      }
      if (!values.contains(name)) values[name] = memory.new_zeros({std::ssize(parts[0])});
      int64_t done = 0;
      for (const Range& range : own_ranges(std::ssize(parts[0]))) {
        values[name].narrow(0, range.begin - kOffset, range.size()).copy_(memory.narrow(0, done, range.size()));
        done += range.size();
      }
    }
  });
  return values;
}

void expect_oracle(const Program& program, const SizeValues& sizes, int ranks, const OracleInputs& inputs,
                   const Values& values, double tolerance) {
  const OracleResult expected = run_oracle(program, inputs, {.ranks = ranks, .sizes = sizes});
  for (const auto& [name, state] : expected.states) {
    const at::Tensor value = values.at(name).to(at::kDouble);
    const auto* got = value.const_data_ptr<double>();
    double worst = 0;
    for (size_t i = 0; i < state.parts[0].size(); ++i)
      worst = std::max(worst, std::abs(got[i] - state.parts[0][i]) / std::max(1.0, std::abs(state.parts[0][i])));
    EXPECT_LE(worst, tolerance) << name << " of " << program.name() << " on " << ranks << " ranks";
  }
}

TEST(PlanExecutor, GivesTheOraclesNumbersAndTheSameBitsUnderEverySchedule) {
  const SizeValues sizes = {{"N", kElements}};
  for (const int ranks : {1, 2, 3, 4}) {
    const OracleInputs inputs = inputs_of(figures::adam(), sizes, ranks);
    Values first;
    for (const Schedule& schedule :
         {Schedule(figures::adam()), figures::ar_opt(), figures::rs_opt_ag(), figures::fuse_rs_opt_ag()}) {
      const Values values = execute(schedule.program(), sizes, ranks, inputs);
      expect_oracle(figures::adam(), sizes, ranks, inputs, values, 2e-6);
      if (first.empty()) first = values;
      for (const auto& [name, value] : values) EXPECT_TRUE(at::equal(value, first.at(name))) << name;
    }
  }
}

TEST(PlanExecutor, ClipsInsideOfASchedule) {
  const SizeValues sizes = {{"N", kElements}};
  for (const int ranks : {1, 2, 4}) {
    const OracleInputs inputs = inputs_of(figures::clipped_adam(), sizes, ranks);
    const Values plain = execute(figures::clipped_adam(), sizes, ranks, inputs),
                 fused = execute(figures::clipped_fuse().program(), sizes, ranks, inputs);
    expect_oracle(figures::clipped_adam(), sizes, ranks, inputs, fused, 2e-6);
    for (const auto& [name, value] : fused) EXPECT_TRUE(at::equal(value, plain.at(name))) << name;
  }
}

// A norm per row, and an operand per row: LAMB's shape.
TEST(PlanExecutor, KeepsOneNumberPerRow) {
  ProgramBuilder p("rows");
  const auto g = p.tensor("g", ElementType::fp32, {"T", "K"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"T", "K"}), decay = p.tensor("decay", ElementType::fp32, {"T", 1});
  const auto sum = p.let("sum", all_reduce(Reduction::sum, g));
  const auto u = p.let("u", sum + decay * w);
  const auto ratio = p.let("ratio", cast(norm(w, {1}) / norm(u, {1}), ElementType::fp32));
  Schedule schedule(p.returns({p.let("w1", update(w, w - 0.5 * ratio * u))}));
  const Program plain = schedule.program();
  schedule.split("sum", SplitPolicy::reduce_scatter, 1).reorder("sum", {"u", "ratio.2", "w1"});
  schedule.fuse("sums", {"sum.part", "u.part", "ratio.2.part"}).fuse("updates", {"w1.part", "w1.whole", "w1"});
  const SizeValues sizes = {{"T", 5}, {"K", 3001}};
  for (const int ranks : {1, 2, 3}) {
    const OracleInputs inputs = inputs_of(plain, sizes, ranks);
    const Values all = execute(plain, sizes, ranks, inputs), fused = execute(schedule.program(), sizes, ranks, inputs);
    expect_oracle(plain, sizes, ranks, inputs, fused, 2e-6);
    EXPECT_TRUE(at::equal(all.at("w"), fused.at("w")));
  }
}

TEST(PlanExecutor, RefusesByNameWhatItCannotRun) {
  run_local(1, [](Environment& environment) {
    const auto executor = [&](const Program& program) {
      PlanExecutor(SchedulePlan(program), environment.world(), {.sizes = {{"N", 4}, {"K", 3}}});
    };
    ProgramBuilder two("two", 2);
    const auto w = two.tensor("w", ElementType::fp32, {"N"});
    EXPECT_USER_ERROR(executor(two.returns({two.let("y", send(w))})), "one group, got 2");
    ProgramBuilder rows("rows");
    const auto a = rows.tensor("a", ElementType::fp32, {"N", "K"});
    EXPECT_USER_ERROR(executor(rows.returns({rows.let("y", reduce_tensor(Reduction::sum, a, {0}))})),
                      "sums must be over the last dims");
    PlanExecutor adam(SchedulePlan(figures::adam()), environment.world(), {.sizes = {{"N", 4}}});
    EXPECT_USER_ERROR(adam.set("rate", 1), "'rate' must be a declared scalar of adam");
    EXPECT_USER_ERROR(adam.bind("w", at::Tensor(adam.memory("w").narrow(0, 0, 2))), "must be 4 contiguous elements");
  });
}

}  // namespace
}  // namespace axonn::overlap
