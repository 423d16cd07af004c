// Optimizers' programs on scattered tensors, beside one contiguous tensor, on threads as ranks.
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/coconet/transform/program_file.hpp"
#include "axonn/overlap/execute/update_executor.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace axonn {
using namespace coconet;
namespace {

UpdateProgram program_of(const std::string& name) {
  const std::string folder = name == "lion" ? AXONN_TEST_PROGRAMS : AXONN_PROGRAMS;
  return UpdateProgram(load_program_file(folder + "/" + name + ".program").program);
}

// Numbers that differ by place and rank, the same for each layout.
at::Tensor numbers(int64_t begin, int64_t count, int64_t seed) {
  return (at::arange(begin, begin + count, at::kDouble) * 12.9898 + static_cast<double>(seed) * 78.233).sin();
}

struct Counts {
  int64_t bytes = 0, messages = 0, collectives = 0;
  bool operator==(const Counts&) const = default;
};

// A network on one rank, and what its steps cost.
class Updated {
 public:
  Updated(Environment& environment, std::shared_ptr<Arena> arena, const Grid& grid, const UpdateProgram& program,
          UpdateSchedule schedule, bool as_one_tensor)
      : world_(environment.world()),
        communicators_(world_, grid),
        scheduler_(communicators_, grid, OverlapPolicy::none()),
        arena_(std::move(arena)),
        schedule_(scheduler_.add(arena_)),
        program_(program),
        executor_(program, program.scheduled(schedule).program(),
                  {*arena_, schedule_, communicators_, grid, environment.rank()}) {
    executor_.set(kLearningRate, 0.125);
    if (program_.has_number(kMostNorm)) executor_.set(kMostNorm, 20);
    std::vector<double> decay;  // another one for each tensor
    for (const ArenaSlot& slot : arena_->slots()) decay.push_back(as_one_tensor ? 0.0625 : 0.0625 * (slot.number + 1));
    if (program_.has_number(kDecay)) executor_.set_rows(kDecay, decay);
  }

  // `fill` gives every gradient its values.
  void step(int64_t number, const std::function<void()>& fill) {
    if (program_.has_number(kUpdateNumber)) executor_.set(kUpdateNumber, static_cast<double>(number));
    if (executor_.updates_with_sums()) executor_.prepare();
    const auto before = world_.counters();
    scheduler_.begin_step();
    for (const ArenaSlot& slot : arena_->slots()) schedule_.use(slot);
    fill();
    for (const ArenaSlot& slot : arena_->slots()) schedule_.reduce(slot, [](const at::Tensor&, bool) {});
    scheduler_.finish();
    norms.push_back(executor_.gradient_norm(/*poisoned=*/false));
    executor_.update();
    schedule_.wait_for_weights();
    const auto now = world_.counters();
    counts = {now.bytes_sent - before.bytes_sent, now.messages - before.messages, now.collectives - before.collectives};
  }

  const UpdateExecutor& executor() const { return executor_; }
  Arena& arena() { return *arena_; }
  std::vector<double> norms;
  Counts counts;  // the last step's

 private:
  Communicator& world_;
  Communicators communicators_;
  Scheduler scheduler_;
  std::shared_ptr<Arena> arena_;
  NetworkSchedule& schedule_;
  UpdateProgram program_;
  UpdateExecutor executor_;
};

std::shared_ptr<Arena> scattered_arena(const std::vector<int64_t>& sizes, const Grid& grid, int rank,
                                       at::ScalarType dtype) {
  std::vector<PlacedWeight> weights;
  for (const int64_t size : sizes)
    weights.push_back({"w" + std::to_string(weights.size()), true, at::zeros({size}, dtype), at::zeros({size}, dtype)});
  return std::make_shared<Arena>(weights, grid, rank);
}

std::shared_ptr<Arena> flat_arena(const std::vector<int64_t>& sizes, const Grid& grid, int rank, at::ScalarType dtype) {
  std::vector<Arena::Entry> entries;
  for (const int64_t size : sizes)
    entries.push_back({"w" + std::to_string(entries.size()), ShardSpec{.dims = {Dim::whole(size)}}, true});
  const at::ScalarType master = dtype == at::kDouble ? at::kDouble : at::kFloat;
  return std::make_shared<Arena>(entries, grid, rank, ArenaTypes{dtype, dtype, master}, c10::kCPU);
}

// Both arenas have their elements at the same places.
void expect_equal_steps(Environment& environment, const UpdateProgram& plain, UpdateSchedule schedule,
                        at::ScalarType dtype, const std::vector<int64_t>& sizes, bool as_one_tensor) {
  const Grid grid({.data = environment.ranks()});
  const int rank = environment.rank();
  const auto type = dtype == at::kDouble     ? ElementType::fp64
                    : dtype == at::kBFloat16 ? ElementType::bf16
                                             : ElementType::fp32;
  const UpdateProgram program =
      plain.with_types(type, type, type == ElementType::bf16 ? ElementType::fp32 : type).with_average();
  const auto places = scattered_arena(sizes, grid, rank, dtype);
  const ScatteredTensors &weights = *places->scattered_weights(), &gradients = *places->scattered_gradients();
  const auto whole = flat_arena(as_one_tensor ? std::vector{places->size()} : sizes, grid, rank, dtype);
  ASSERT_EQ(whole->size(), places->size());
  const auto for_each_run = [&](const auto& visit) { weights.for_each_run({0, weights.size()}, visit); };
  const auto fill = [&](const ScatteredTensors& tensors, const at::Tensor& flat, int64_t seed) {
    for_each_run([&](Range run) {
      const at::Tensor values = numbers(run.begin, run.size(), seed);
      tensors.narrowed(run).copy_(values);
      flat.narrow(0, run.begin, run.size()).copy_(values);
    });
  };
  fill(weights, whole->weights(), 5);
  if (dtype == at::kBFloat16) whole->master().copy_(whole->weights());
  Updated scattered(environment, places, grid, program, schedule, as_one_tensor);
  Updated one(environment, whole, grid, program, schedule, as_one_tensor);
  for (int64_t number = 1; number <= 3; ++number) {
    const auto gradients_of_step = [&] { fill(gradients, whole->gradients(), 100 * number + rank); };
    scattered.step(number, gradients_of_step);
    one.step(number, gradients_of_step);
    for_each_run([&](Range run) {
      EXPECT_TRUE(weights.narrowed(run).equal(whole->weights().narrow(0, run.begin, run.size())))
          << program.name() << ", step " << number << ", " << run.begin << " to " << run.end;
    });
    EXPECT_EQ(scattered.counts, one.counts);
  }
  EXPECT_EQ(scattered.norms, one.norms);
  const auto states = scattered.executor().state(), expected = one.executor().state();
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i].own || !expected[i].own) continue;
    EXPECT_TRUE(states[i].tensor.equal(expected[i].tensor)) << states[i].name;
  }
}

const std::vector<int64_t> kUneven = {5000, 1, 1024, 77, 3 * 4096 + 5, 40'000, 2048, 300};
const std::vector<int64_t> kWholeBuckets = {5 * 1024, 1024, 1024, 1024, 13 * 1024, 40 * 1024, 2048, 1024};

void on_each_path(int ranks, const std::function<void(Environment&)>& body) {
  for (const char* shared : {"1", "0"}) {
    setenv("AXONN_SHARED_MEMORY", shared, 1);
    run_local(ranks, body);
    unsetenv("AXONN_SHARED_MEMORY");
  }
}

constexpr UpdateSchedule kSchedules[] = {UpdateSchedule::rs_opt_ag, UpdateSchedule::fuse};

TEST(ScatteredUpdate, HasBitsAndMessagesOfOneTensor) {
  for (const std::string name : {"adamw", "sgd", "sgd-momentum", "lion"})
    for (const int ranks : {1, 3, 4})
      on_each_path(ranks, [&](Environment& environment) {
        for (const UpdateSchedule schedule : kSchedules)
          for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16})
            expect_equal_steps(environment, program_of(name), schedule, dtype, kUneven, /*as_one_tensor=*/true);
      });
}

TEST(ScatteredUpdate, IsTheSameDuringBackward) {
  for (const int ranks : {1, 2, 4})
    on_each_path(ranks, [&](Environment& environment) {
      for (const std::string name : {"adamw", "sgd"})
        expect_equal_steps(environment, program_of(name).without_factor(), UpdateSchedule::fuse, at::kFloat, kUneven,
                           /*as_one_tensor=*/true);
    });
}

// LAMB's norms are of each tensor: one flat buffer with the same tensors.
TEST(ScatteredUpdate, KnowsWhichTensorEachElementIsOf) {
  for (const int ranks : {1, 3, 4})
    on_each_path(ranks, [&](Environment& environment) {
      for (const UpdateSchedule schedule : kSchedules)
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
          expect_equal_steps(environment, program_of("lamb"), schedule, dtype, kWholeBuckets, /*as_one_tensor=*/false);
    });
}

TEST(ScatteredUpdate, HasATableOfTwelveAndSixteenBytesPerBucket) {
  const auto arena = scattered_arena(kUneven, Grid({}), 0, at::kFloat);
  int64_t buckets = 0;
  for (const int64_t size : kUneven) buckets += (size + 1023) / 1024;
  EXPECT_EQ(arena->scattered_gradients()->table_bytes(), 12 * buckets);
  EXPECT_EQ(arena->scattered_weights()->table_bytes(), 16 * buckets);
  EXPECT_EQ(arena->size(), 1024 * buckets);
}

}  // namespace
}  // namespace axonn
