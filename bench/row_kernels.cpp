// row_kernels: what works on the rows of activations, beside LibTorch's kernels, forward and
// backward, on one thread. Calls alternate; medians, and bytes that must be read and written.
//   build/release/bin/row_kernels
#include <chrono>
#include <cstdio>
#include <functional>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/types.h>

#include <axonn/axonn.hpp>

#include "in_turns.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// `bytes` of one call; the times are of all calls of `ours` or `theirs`.
void report(const char* what, at::ScalarType type, int64_t rows, int64_t columns, double bytes, int repetitions,
            const std::function<void()>& ours, const std::function<void()>& theirs) {
  const axonn::bench::InTurns all = axonn::bench::in_turns(repetitions, seconds_of, theirs, ours);
  std::printf("%-14s %-9s %6lld x %-6lld %9.3f ms %6.1f GB/s %9.3f ms %6.1f GB/s %6.2f\n", what, c10::toString(type),
              static_cast<long long>(rows), static_cast<long long>(columns), all.theirs * 1e3,
              bytes / all.theirs * 1e-9, all.ours * 1e3, bytes / all.ours * 1e-9, all.ratio);
  std::fflush(stdout);
}

// The loss of logits and its gradient: logits are read twice, the gradient is written.
void cross_entropy(axonn::Environment& environment, at::ScalarType type, int64_t rows, int64_t columns,
                   int repetitions) {
  axonn::Context context(environment, {}, {.dtype = type});
  const at::Tensor logits = at::randn({rows, columns}).to(type).requires_grad_(),
                   targets = at::randint(columns, {rows}, at::kLong);
  const auto step = [&](const std::function<at::Tensor()>& loss) {
    logits.mutable_grad().reset();
    loss().backward();
  };
  report(
      "cross entropy", type, rows, columns, 3.0 * static_cast<double>(rows * columns * logits.element_size()),
      repetitions,
      [&] {
        step(
            [&] { return axonn::cross_entropy_sum(context, {logits, columns, axonn::Layout::replicated()}, targets); });
      },
      [&] { step([&] { return at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::Sum); }); });
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 15, threads = 1;
  CLI::App app("Kernels over rows of activations beside LibTorch's, forward and backward");
  app.add_option("--repetitions", repetitions, "interleaved repetitions; medians are printed");
  app.add_option("--threads", threads, "number of compute threads");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  axonn::Environment environment;
  std::printf("%-14s %-9s %15s %12s %11s %12s %11s %6s\n", "kernel", "type", "rows x columns", "LibTorch", "", "axonn",
              "", "ratio");
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [rows, columns] : {std::pair{3072, 256}, {1024, 1000}, {512, 8192}, {256, 50257}, {24, 50257}})
      cross_entropy(environment, type, rows, columns, repetitions);
  return 0;
}
