#include "comm/watch/misuses.hpp"

#include <memory>

#include <ATen/ops/ones.h>

#include "axonn/comm/step_moment.hpp"

namespace axonn {
namespace {

at::Tensor ones(int64_t elements, at::ScalarType type = at::kFloat) { return at::ones({elements}, type); }

// The call of rank 0, and the call of all others instead.
using On = std::function<Request(Communicator&)>;
std::function<void(Environment&)> instead(On rank_0, On others) {
  return [rank_0 = std::move(rank_0), others = std::move(others)](Environment& environment) {
    Communicator& world = environment.world();
    (environment.rank() == 0 ? rank_0 : others)(world).wait();
    world.barrier().wait();
  };
}

std::unique_ptr<Communicator> pair_of(Environment& environment, int a, int b) {
  return environment.communicator({.axes = {}, .ranks = {a, b}, .index = environment.rank() == a ? 0 : 1},
                                  std::to_string(a) + "and" + std::to_string(b));
}

void all_reduce(Communicator& ranks, const char* tag = "", int64_t elements = 1000) {
  ranks.all_reduce(ones(elements), ReduceOp::sum, {.tag = tag}).wait();
}

void other_step(Environment& environment) {
  const auto moment = std::make_shared<StepMoment>();
  const auto z = environment.communicator(environment.world().group(), "z", c10::kCPU, moment);
  moment->set(1, 2);
  all_reduce(*z);
  environment.rank() == 0 ? moment->set(1, 0) : moment->set(2, 3);
  all_reduce(*z);
}

void one_has_ended(Environment& environment) {
  const auto z = environment.communicator(environment.world().group(), "z");
  all_reduce(*z);
  if (environment.rank() == 0) all_reduce(*z, "h.3");
}

void other_groups(Environment& environment) {
  const auto a = pair_of(environment, 0, 1), b = environment.communicator(environment.world().group(), "all");
  all_reduce(*(environment.rank() == 0 ? a : b));
}

void three_pairs(Environment& environment) {
  const int rank = environment.rank();
  const auto first = rank == 2 ? nullptr : pair_of(environment, 0, 1);
  const auto second = rank == 0 ? nullptr : pair_of(environment, 1, 2);
  const auto third = rank == 1 ? nullptr : pair_of(environment, 0, 2);
  all_reduce(*(rank == 0 ? first : rank == 1 ? second : third));
}

// The others wait for rank 3 in the one call, and rank 3 for rank 1 in the other. Large messages
// go around a ring: rank 1 waits for rank 0, and that one for rank 3.
void a_ring_and_a_pair(Environment& environment) {
  const int rank = environment.rank();
  const auto pair = rank == 1 || rank == 3 ? pair_of(environment, 1, 3) : nullptr;
  all_reduce(rank == 3 ? *pair : environment.world(), "", 100'000);
}

void one_makes_a_communicator(Environment& environment) {
  if (environment.rank() == 0) environment.communicator(environment.world().group(), "eval");
  all_reduce(environment.world());
}

// Behind a call of its own queue, which waits for rank 0, rank 1 has called what rank 0 waits for.
void behind_another(Environment& environment) {
  const auto other = environment.communicator(environment.world().group(), "other");
  Communicator& world = environment.world();
  const auto late = ones(1000), both = ones(1000);
  if (environment.rank() == 0) return world.all_reduce(both).wait();
  const std::vector<Request> first = {other->all_reduce(late)};
  world.all_reduce(both, ReduceOp::sum, {.after = first}).wait();
}

std::vector<Misuse> make_misuses() {
  const auto sum = [](Communicator& world) { return world.all_reduce(ones(20), ReduceOp::sum, {.tag = "loss"}); };
  const auto send = [](Communicator& world) { return world.send(ones(10), 1, {.tag = "row"}); };
  return {
      {"size",
       2,
       instead([](Communicator& world) { return world.all_reduce(ones(10)); }, sum),
       {"40 bytes", "80 bytes"}},
      {"large size",
       2,
       instead([](Communicator& world) { return world.all_reduce(ones(1 << 20)); },
               [](Communicator& world) { return world.all_reduce(ones(1 << 21)); }),
       {"4194304 bytes", "8388608 bytes"}},
      {"type",
       2,
       instead([](Communicator& world) { return world.all_reduce(ones(20, at::kInt), ReduceOp::sum, {.tag = "loss"}); },
               sum),
       {"[Float, sum]", "[Int, sum]"}},
      {"operation",
       2,
       instead([](Communicator& world) { return world.all_reduce(ones(20), ReduceOp::max, {.tag = "loss"}); }, sum),
       {"[Float, sum]", "[Float, max]"}},
      {"tag",
       3,
       instead([](Communicator& world) { return world.all_reduce(ones(20), ReduceOp::sum, {.tag = "norm"}); }, sum),
       {"'loss'", "'norm'"}},
      {"kind",
       2,
       instead([](Communicator& world) { return world.broadcast(ones(20), 1, {.tag = "loss"}); }, sum),
       {"all-reduce #", "broadcast #"}},
      {"root",
       3,
       instead([](Communicator& world) { return world.broadcast(ones(20), 1); },
               [](Communicator& world) { return world.broadcast(ones(20), 2); }),
       {"root 1", "root 2"}},
      // Both send, and end.
      {"two roots",
       2,
       instead([](Communicator& world) { return world.broadcast(ones(20), 0); },
               [](Communicator& world) { return world.broadcast(ones(20), 1); }),
       {"root 0", "root 1"}},
      {"parts",
       2,
       instead([](Communicator& world) { return world.reduce_scatter(ones(20), ones(5), std::vector<int64_t>{5, 15}); },
               [](Communicator& world) { return world.reduce_scatter(ones(20), ones(10)); }),
       {"reduce-scatter #", "of other parts"}},
      {"barrier", 2, instead([](Communicator& world) { return world.barrier(); }, sum), {"barrier #", "all-reduce #"}},
      {"message's size",
       2,
       instead(send, [](Communicator& world) { return world.receive(ones(11), 0, {.tag = "row"}); }),
       {"receive #1", "44 bytes", "send #1", "40 bytes"}},
      {"message's type",
       2,
       instead(send, [](Communicator& world) { return world.receive(ones(10, at::kInt), 0, {.tag = "row"}); }),
       {"[Int, from rank 0]", "[Float, to rank 1]"}},
      {"message's tag",
       2,
       instead(send, [](Communicator& world) { return world.receive(ones(10), 0, {.tag = "column"}); }),
       {"'row'", "'column'"}},
      {"step", 2, other_step, {"after step 1", "in step 2 of 3 micro-batches", "#2 of group 'z'"}},
      {"ended",
       2,
       one_has_ended,
       {"rank 0 waits in all-reduce #2 of group 'z'", "rank 1, which has not called it and whose program has ended"}},
      {"end of the program",
       2,
       [](Environment& environment) {
         if (environment.rank() == 0) all_reduce(environment.world());
       },
       {"all-reduce #", "'the end of the program'"}},
      {"queue",
       2,
       instead(
           [](Communicator& world) { return world.all_reduce(ones(20), ReduceOp::sum, {.priority = Priority::low}); },
           sum),
       {"the ranks wait for each other", "[Float, sum, priority low]"}},
      {"circle of two", 2, other_groups, {"the ranks wait for each other", "group '0and1'", "group 'all'"}},
      {"circle of three",
       3,
       three_pairs,
       {"the ranks wait for each other", "group '0and1'", "group '1and2'", "group '0and2'"}},
      {"circle with a ring", 4, a_ring_and_a_pair, {"the ranks wait for each other", "group '1and3'", "group 'world'"}},
      {"communicator", 2, one_makes_a_communicator, {"group 'eval'", "'making the communicator'"}},
      {"circle in a queue", 2, behind_another, {"group 'other'"}},
  };
}

}  // namespace

const std::vector<Misuse>& misuses() {
  static const std::vector<Misuse> all = make_misuses();
  return all;
}

}  // namespace axonn
