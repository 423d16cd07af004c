#include "axonn/comm/scheduler.hpp"

#include <chrono>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// What a parameter whose gradient is wrong in number did, for the error.
std::string complaint(const ArenaSlot& slot) {
  const auto& g = slot.gradient;
  if (g.uses > 0) return detail::concatenate("'", slot.name, "' (", g.uses, " forward uses without a backward)");
  return detail::concatenate("'", slot.name, "' (never used)");
}

}  // namespace

Scheduler::Scheduler(Communicators& communicators, const Grid& grid) : communicators_(communicators), grid_(grid) {}

GatheredWeight Scheduler::gathered(const Arena& arena, const ArenaSlot& slot) {
  if (slot.counts.size() == 1) return {arena.weight(slot).view(slot.block_shape), nullptr};

  const int64_t numel = c10::multiply_integers(slot.block_shape);
  at::Tensor buffer = pool_.take(numel, arena.weights().options());
  std::shared_ptr<void> loan(nullptr, [this, buffer](void*) { pool_.give_back(buffer); });
  at::Tensor flat = buffer.narrow(0, 0, numel);
  wait(communicators_[Axis::z].all_gather(arena.weight(slot), flat, slot.counts, {.priority = Priority::high, .tag = slot.name}));
  return {flat.view(slot.block_shape), std::move(loan)};
}

Pending Scheduler::all_reduce(at::Tensor tensor, AxisSet axes, std::string_view tag, ReduceOp op) {
  if (grid_.shape().size(axes) == 1) return {std::move(tensor), {}};
  wait(communicators_[axes].all_reduce(tensor, op, {.priority = Priority::high, .tag = tag}));
  return {std::move(tensor), {}};
}

Pending Scheduler::all_gather(const at::Tensor& input, AxisSet axes, std::string_view tag) {
  std::vector<int64_t> shape = input.sizes().vec();
  shape.insert(shape.begin(), grid_.shape().size(axes));
  if (shape[0] == 1) return {input.unsqueeze(0), {}};
  at::Tensor output = at::empty(shape, input.options());
  wait(communicators_[axes].all_gather(input.contiguous(), output, {}, {.priority = Priority::high, .tag = tag}));
  return {std::move(output), {}};
}

void Scheduler::begin_step() {
  AXONN_CHECK(!in_step_, "comm.begin_step", "the step before has not been finished; call step.finish() after its backward passes");
  for (const auto& arena : living_arenas())
    for (ArenaSlot& slot : arena->slots()) slot.gradient = {};
  waited_seconds_ = 0;
  in_step_ = true;
}

void Scheduler::use(ArenaSlot& slot) {
  AXONN_CHECK(
      in_step_, "comm.use", "'", slot.name,
      "' is used under autograd outside a step; call context.begin_step() first, or hold a torch::NoGradGuard when no gradient is needed");
  ++slot.gradient.uses;
}

void Scheduler::reduce(Arena& arena, ArenaSlot& slot, const std::function<void(const at::Tensor&, bool)>& write) {
  auto& gradient = slot.gradient;
  AXONN_CHECK(in_step_ && gradient.uses > 0, "comm.reduce", "a gradient of '", slot.name,
              "' came that no forward of this step asked for; backward must run inside the step of its forward");
  if (!gradient.block.defined()) gradient.block = gradient_block(arena, slot);
  const bool in_arena = slot.counts.size() == 1;
  const bool add = gradient.arrived > 0 || (in_arena && gradient.reduced > 0);
  write(gradient.block.narrow(0, 0, c10::multiply_integers(slot.block_shape)).view(slot.block_shape), add);
  ++gradient.arrived;
  if (--gradient.uses == 0) reduce_block(arena, slot);
}

// Where the contributions of one micro-batch are summed: the arena itself when nothing has to be exchanged over Z.
at::Tensor Scheduler::gradient_block(Arena& arena, ArenaSlot& slot) {
  if (slot.counts.size() == 1) return arena.gradient(slot);
  return pool_.take(c10::multiply_integers(slot.block_shape), arena.gradients().options());
}

void Scheduler::reduce_block(Arena& arena, ArenaSlot& slot) {
  auto& gradient = slot.gradient;
  if (slot.counts.size() > 1) {
    const int64_t numel = c10::multiply_integers(slot.block_shape);
    const at::Tensor shard = arena.gradient(slot);
    const bool first = gradient.reduced == 0;
    const at::Tensor into = first ? shard : pool_.take(shard.numel(), shard.options());
    const at::Tensor mine = first ? into : into.narrow(0, 0, shard.numel());
    wait(communicators_[Axis::z].reduce_scatter(gradient.block.narrow(0, 0, numel), mine, slot.counts, ReduceOp::sum, {.tag = slot.name}));
    if (!first) {
      shard.add_(mine);
      pool_.give_back(into);
    }
    pool_.give_back(gradient.block);
  }
  gradient.block.reset();
  gradient.arrived = 0;
  ++gradient.reduced;
}

void Scheduler::finish() {
  AXONN_CHECK(in_step_, "comm.finish", "no step has begun; call context.begin_step() before the forward pass");
  in_step_ = false;
  const auto arenas = living_arenas();
  std::string wrong;
  for (const auto& arena : arenas)
    for (const ArenaSlot& slot : arena->slots())
      if (slot.gradient.uses > 0 || slot.gradient.reduced == 0) wrong += (wrong.empty() ? "" : ", ") + complaint(slot);
  AXONN_CHECK(wrong.empty(), "comm.finish", "the step ends without the gradient of ", wrong);

  const auto sum = [&](const Arena& arena, Range range, AxisSet axes) {
    if (range.size() == 0 || grid_.shape().size(axes) == 1) return;
    wait(communicators_[axes].all_reduce(arena.gradients().narrow(0, range.begin, range.size()), ReduceOp::sum,
                                         {.tag = "gradients", .arena_offset = range.begin}));
  };
  for (const auto& arena : arenas) {
    sum(*arena, arena->over_z(), Axis::data);
    sum(*arena, arena->replicated(), {Axis::z, Axis::data});
  }
}

std::vector<std::shared_ptr<Arena>> Scheduler::living_arenas() {
  std::erase_if(arenas_, [](const auto& arena) { return arena.expired(); });
  std::vector<std::shared_ptr<Arena>> living;
  for (const auto& arena : arenas_) living.push_back(arena.lock());
  return living;
}

void Scheduler::wait(const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  request.wait();
  waited_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace axonn
