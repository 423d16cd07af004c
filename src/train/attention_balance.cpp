#include "axonn/train/attention_balance.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr int64_t kTokens = 1024, kHeads = 2, kFeatures = 64;  // the attention that is measured
constexpr int64_t kElements = int64_t{1} << 18;                // a message

// FLOPs of forward and backward, as RowsTrade counts them.
constexpr double kWork = 12 * (kTokens + 1) / 2.0 * kTokens * kHeads * kFeatures;

std::function<void()> attention_work(Context& alone) {
  const auto options = at::TensorOptions().dtype(alone.options().dtype);
  const auto random = [&] { return at::ones({1, kTokens, kHeads, kFeatures}, options).requires_grad_(); };
  const AttentionHeads heads{random(), random(), random()};
  return [&alone, heads, grad = at::ones({1, kTokens, kHeads * kFeatures}, options)] {
    attention(alone, heads, {.heads = kHeads}).tensor.backward(grad);
  };
}

// Of three turns after one that is not counted; all ranks do as many, and begin together.
double median_seconds(Communicator& everyone, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::array<double, 3> seconds{};
  for (int turn = -1; turn < 3; ++turn) {
    everyone.barrier().wait();
    const auto start = Clock::now();
    work();
    if (turn >= 0) seconds[static_cast<size_t>(turn)] = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::ranges::sort(seconds);
  return seconds[1];
}

}  // namespace

AttentionBalance measure_attention_balance(Environment& environment, const GridShape& shape,
                                           const ContextOptions& options) {
  if (!options.device.is_cpu() || options.forward.attention_rows != AttentionRows::automatic) return {};
  if (shape.x == 1 && shape.y == 1) return {};
  Context grid(environment, shape,
               {.order = options.order, .placement = options.placement, .job_ranks = options.job_ranks});
  Context alone(environment, {},
                {.dtype = options.dtype, .attention = options.attention, .job_ranks = {environment.rank()}});
  Communicator& everyone = grid.communicators()[AxisSet::all()];
  const auto slowest = [&](const std::function<void()>& work) {
    const Tensor seconds = at::full({1}, median_seconds(everyone, work), at::kDouble);
    everyone.all_reduce(seconds, ReduceOp::max).wait();
    return seconds.item<double>();
  };
  const double flops = kWork / slowest(attention_work(alone));
  const Tensor message = at::zeros({kElements}, at::kFloat);
  const auto balance = [&](Axis axis) {
    if (shape[axis] == 1) return 0.0;
    Communicator& ranks = grid.communicators()[axis];
    const double others = shape[axis] - 1, moved = 2 * static_cast<double>(message.nbytes()) * others / (others + 1);
    return flops * slowest([&] { ranks.all_reduce(message).wait(); }) / moved;
  };
  return {.x = balance(Axis::x), .y = balance(Axis::y)};
}

}  // namespace axonn
