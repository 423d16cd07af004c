// Optimizers' programs on threads as ranks, beside the oracle.
#include "axonn/overlap/execute/update_executor.hpp"

#include <random>
#include <ranges>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/coconet/oracle/oracle.hpp"
#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "support/user_error.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr int64_t kTensors = 3, kElements = 3 * 4096 + 77;

UpdateProgram program_of(const std::string& file) { return UpdateProgram(load_program_file(file).program); }

// The inputs of one update: numbers with few bits, so that sums are exact in any order.
struct Given {
  OracleOptions options;
  OracleInputs inputs;

  Given(const Program& program, int ranks) {
    options.ranks = ranks;
    options.sizes = {{"T", kTensors}, {"K", kElements}};
    for (const auto& [name, value] : {std::pair("lr", 0.125), {"step", 3}, {"max_norm", 20}, {"ema_rate", 0.25}})
      if (program.find_declaration(name) != nullptr) options.scalars[name] = value;
    uint64_t seed = 0;
    for (const Declaration& declaration : program.declarations()) {
      if (declaration.type.is_scalar()) continue;
      const int64_t count = count_of(extents_of(declaration.type.shape, options.sizes));
      const bool local = declaration.type.distribution.is(coconet::Placement::local);
      for (int rank = 0; rank < (local ? ranks : 1); ++rank) inputs[declaration.name].push_back(numbers(count, ++seed));
    }
  }

  static std::vector<double> numbers(int64_t count, uint64_t seed) {
    std::vector<double> all;
    for (int64_t i = 0; i < count; ++i)
      all.push_back(static_cast<double>((static_cast<uint64_t>(i) * 2654435761u + seed * 97) % 31 + 1) / 16);
    return all;
  }
  at::Tensor of(const std::string& tensor, int rank = 0) const {
    const auto& parts = inputs.at(tensor);
    return at::tensor(parts.size() > 1 ? parts[static_cast<size_t>(rank)] : parts[0], at::kDouble);
  }
};

// A network of three parameters, the last replicated over Z, on one rank.
class Updated {
 public:
  Updated(Environment& environment, const UpdateProgram& program, UpdateSchedule schedule, ArenaTypes types,
          const OverlapPolicy& policy = {})
      : rank_(environment.rank()),
        grid_({.data = environment.ranks()}),
        communicators_(environment, grid_, rank_, c10::kCPU),
        scheduler_(communicators_, grid_, policy),
        arena_(std::make_shared<Arena>(entries(), grid_, rank_, types, c10::kCPU)),
        schedule_(scheduler_.add(arena_)),
        executor_(program, program.scheduled(schedule).program(), {*arena_, schedule_, communicators_, grid_, rank_}) {}

  // One step, with the gradients and the state of the oracle. The last gradients come first, as in
  // a backward pass.
  void step(const UpdateProgram& program, const Given& given) {
    for (const auto& [name, value] : given.options.scalars) executor_.set(name, value);
    if (program.has_number(kDecay)) {
      const at::Tensor decay = given.of(std::string(kDecay));
      executor_.set_rows(kDecay, {decay.const_data_ptr<double>(), static_cast<size_t>(decay.numel())});
    }
    for (const UpdateExecutor::State& state : executor_.state()) store(state, given.of(state.name));
    executor_.master_changed();
    if (executor_.updates_with_sums()) executor_.prepare();
    scheduler_.begin_step();
    const at::Tensor gradients = given.of(program.gradients(), rank_);
    for (const ArenaSlot& slot : arena_->slots() | std::views::reverse) {
      schedule_.use(slot);
      schedule_.reduce(slot, [&](const at::Tensor& block, bool) { block.copy_(row(gradients, slot.number)); });
    }
    scheduler_.finish();
    norm_ = executor_.gradient_norm(/*poisoned=*/false);
    executor_.update();
    schedule_.wait_for_weights();
  }

  // The largest difference of what this rank stores from the oracle, relative to the larger of 1
  // and the number.
  double difference(const UpdateProgram& program, const OracleResult& expected) const {
    const auto whole = [&](const std::string& tensor) {
      return in_arena(at::tensor(expected.states.at(tensor).parts[0], at::kDouble));
    };
    double worst = relative(arena_->weights(), whole(program.weights()));
    for (const UpdateExecutor::State& state : executor_.state()) {
      const at::Tensor need = whole(state.name);
      for_each_range(state.own, [&](const OwnedRegion& region, Range range) {
        const int64_t place = state.own ? region.own_place(range.begin) : range.begin;
        worst = std::max(
            worst, relative(state.tensor.narrow(0, place, range.size()), need.narrow(0, range.begin, range.size())));
      });
    }
    return worst;
  }

  double norm() const { return norm_; }
  const at::Tensor& weights() const { return arena_->weights(); }

 private:
  static std::vector<Arena::Entry> entries() {
    std::vector<Arena::Entry> all;
    for (int64_t i = 0; i < kTensors; ++i)
      all.push_back(
          {"w" + std::to_string(i), ShardSpec{.dims = {Dim::whole(kElements)}, .over_z = i + 1 < kTensors}, true});
    return all;
  }
  static at::Tensor row(const at::Tensor& whole, int64_t number) {
    return whole.narrow(0, number * kElements, kElements);
  }
  static double relative(const at::Tensor& got, const at::Tensor& need) {
    if (got.numel() == 0) return 0;
    return ((got.to(at::kDouble) - need).abs() / need.abs().clamp_min(1)).max().item<double>();
  }
  // Elements of all tensors where the arena has them; zeros elsewhere.
  at::Tensor in_arena(const at::Tensor& whole) const {
    at::Tensor flat = at::zeros({arena_->size()}, at::kDouble);
    for (const ArenaSlot& slot : arena_->slots()) flat.narrow(0, slot.offset, kElements).copy_(row(whole, slot.number));
    return flat;
  }
  template <typename Visit>
  void for_each_range(bool own, const Visit& visit) const {
    for (const OwnedRegion& region : arena_->regions())
      for (const Range& range : own ? region.owners.ranges(region.member, region.range) : std::vector{region.range})
        visit(region, range);
  }
  void store(const UpdateExecutor::State& state, const at::Tensor& whole) const {
    const at::Tensor flat = in_arena(whole);
    for_each_range(state.own, [&](const OwnedRegion& region, Range range) {
      const int64_t place = state.own ? region.own_place(range.begin) : range.begin;
      state.tensor.narrow(0, place, range.size()).copy_(flat.narrow(0, range.begin, range.size()));
    });
  }

  int rank_;
  Grid grid_;
  Communicators communicators_;
  Scheduler scheduler_;
  std::shared_ptr<Arena> arena_;
  NetworkSchedule& schedule_;
  UpdateExecutor executor_;
  double norm_ = 0;
};

struct Types {
  const char* name;
  ArenaTypes arena;
  ElementType weights, gradients, master;
  double tolerance;
};
const Types kTypes[] = {
    {"fp64", {at::kDouble, at::kDouble, at::kDouble}, ElementType::fp64, ElementType::fp64, ElementType::fp64, 1e-13},
    {"fp32", {}, ElementType::fp32, ElementType::fp32, ElementType::fp32, 4e-6},
    {"bf16", {at::kBFloat16, at::kFloat, at::kFloat}, ElementType::bf16, ElementType::fp32, ElementType::fp32, 4e-3},
    {"fp16", {at::kHalf, at::kHalf, at::kFloat}, ElementType::fp16, ElementType::fp16, ElementType::fp32, 5e-4}};

void expect_the_oracles_numbers(const UpdateProgram& program, const Types& types, int ranks) {
  const Given given(program.program(), ranks);
  const OracleResult expected = run_oracle(program.program(), given.inputs, given.options);
  for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
    std::vector<double> differences(static_cast<size_t>(ranks));
    run_local(ranks, [&](Environment& environment) {
      Updated network(environment, program, schedule, types.arena);
      network.step(program, given);
      differences[static_cast<size_t>(environment.rank())] = network.difference(program, expected);
    });
    for (const double difference : differences)
      EXPECT_LE(difference, types.tolerance)
          << program.name() << " in " << types.name << " with " << name << " on " << ranks << " ranks";
  }
}

TEST(UpdateExecutor, GivesTheOraclesNumbers) {
  for (const std::string file : {"adamw", "lamb", "sgd", "sgd-momentum", "lion"}) {
    const std::string folder = file == "lion" ? AXONN_TEST_PROGRAMS : AXONN_PROGRAMS;
    const UpdateProgram clipped = program_of(folder + "/" + file + ".program");
    for (const Types& types : kTypes)
      for (const int ranks : {1, 2, 3, 4, 8}) {
        const bool rare = types.master == ElementType::fp64 || types.weights == ElementType::fp16;
        if (rare && ranks > 3) continue;
        expect_the_oracles_numbers(clipped.with_average().with_types(types.weights, types.gradients, types.master),
                                   types, ranks);
        if (ranks == 4)
          expect_the_oracles_numbers(clipped.without_factor().with_types(types.weights, types.gradients, types.master),
                                     types, ranks);
      }
  }
}

// Norms that round. The last bucket comes first, and a collective hands over blocks as they arrive:
// so the schedules compute the sums of blocks in different orders.
TEST(UpdateExecutor, AddsTheSumsOfBlocksInOneOrder) {
  const UpdateProgram program = program_of(std::string(AXONN_PROGRAMS) + "/sgd.program");
  for (const int ranks : {2, 3})
    for (unsigned seed = 0; seed < 8; ++seed) {
      Given given(program.program(), ranks);
      std::mt19937 bits(seed);
      std::normal_distribution<double> normal;
      for (std::vector<double>& gradients : given.inputs.at(program.gradients()))
        for (double& gradient : gradients) gradient = normal(bits);
      std::vector<double> norms;
      for (const auto& [name, schedule] : Names<UpdateSchedule>::all)
        for (const int64_t bucket_bytes : {int64_t{1} << 14, kBucketBytes})
          run_local(ranks, [&, present = schedule](Environment& environment) {
            Updated network(environment, program, present, {}, {.bucket_bytes = bucket_bytes});
            network.step(program, given);
            if (environment.rank() == 0) norms.push_back(network.norm());
          });
      for (const double norm : norms) EXPECT_EQ(norm, norms[0]) << "seed " << seed << " on " << ranks << " ranks";
    }
}

TEST(UpdateExecutor, NeedsNumbersBeforeAnUpdateDuringBackward) {
  const UpdateProgram program = program_of(std::string(AXONN_PROGRAMS) + "/sgd.program").without_factor();
  run_local(1, [&](Environment& environment) {
    const Grid grid({});
    Communicators communicators(environment, grid, 0, c10::kCPU);
    Scheduler scheduler(communicators, grid);
    const auto arena = std::make_shared<Arena>(
        std::vector<Arena::Entry>{{"w", ShardSpec{.dims = {Dim::whole(8)}, .over_z = true}, true}}, grid, 0,
        ArenaTypes{}, c10::kCPU);
    UpdateExecutor executor(program, program.scheduled(UpdateSchedule::fuse).program(),
                            {*arena, scheduler.add(arena), communicators, grid, 0});
    ASSERT_TRUE(executor.updates_with_sums());
    EXPECT_USER_ERROR(executor.gradient_norm(false), "sgd", "call prepare()");
    EXPECT_USER_ERROR(executor.set("rate", 1), "'rate' must be a declared scalar of sgd");
  });
}

}  // namespace
}  // namespace axonn
