// Overhead of axonn's layers on one rank, relative to the same LibTorch calls by hand
// (one_rank_reference.cpp). Steps alternate; prints the median of the ratios. Goal: at most 1.05.
// With --profile S it prints instead where a step's time goes, for the GPTs of bench/peers.py.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/types.h>

#include <axonn/axonn.hpp>
#include <axonn/core/median.hpp>

#include "one_rank_reference.hpp"
#include "operation_times.hpp"

namespace {

using axonn::median;

struct Size {
  const char* name;
  axonn::DecoderConfig config;
  int64_t batch;
};

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(axonn::Environment& environment, const Size& size, int repetitions) {
  axonn::Context context(environment, {});
  axonn::Decoder model(context, size.config);
  const auto parameters = context.materialize(model, 1);
  const auto optimizer = axonn::make_optimizer(context, parameters, {.learning_rate = 1e-3});
  OneRankReference reference(size.config);
  const auto ids = torch::randint(size.config.shape.vocabulary, {size.batch, size.config.shape.sequence}, torch::kLong);
  const auto targets = ids.roll(-1, 1);
  const auto ours = [&] {
    auto step = context.begin_step();
    axonn::mean(model.loss_sum(ids, targets), static_cast<double>(ids.numel()), context).backward();
    step.finish();
    optimizer->step({.max_norm = 1.0});
  };
  const auto theirs = [&] { reference.step(ids, targets); };
  std::vector<double> ours_seconds, theirs_seconds, ratios;
  for (int i = -3; i < repetitions; ++i) {
    const bool first = i % 2 == 0;  // the order alternates
    const double a = first ? seconds_of(ours) : 0;
    const double b = seconds_of(theirs);
    const double c = first ? a : seconds_of(ours);
    if (i < 0) continue;
    ours_seconds.push_back(c);
    theirs_seconds.push_back(b);
    ratios.push_back(c / b);
  }
  std::printf("%-34s %10.1f ms %10.1f ms %10.3f\n", size.name, median(ours_seconds) * 1e3, median(theirs_seconds) * 1e3,
              median(ratios));
}

// Steps as bench/peers.py measures them: gemm and the kernels are chosen as for a run.
void profile(axonn::Environment& environment, const Size& size, at::ScalarType dtype, int steps) {
  axonn::Context context(environment, {},
                         {.dtype = dtype,
                          .gemm = axonn::choose_gemm(environment.world(), dtype, c10::kCPU),
                          .attention = axonn::choose_attention_products(environment.world(), dtype, c10::kCPU)});
  axonn::Decoder model(context, size.config);
  const auto parameters = context.materialize(model, 1);
  const auto optimizer = axonn::make_optimizer(context, parameters, {.learning_rate = 3e-4});
  const auto ids = torch::randint(size.config.shape.vocabulary, {size.batch, size.config.shape.sequence}, torch::kLong);
  const auto targets = ids.roll(-1, 1);
  const auto step = [&] {
    auto open = context.begin_step();
    axonn::mean(model.loss_sum(ids, targets), static_cast<double>(ids.numel()), context).backward();
    open.finish();
    optimizer->step({.max_norm = 1.0});
  };
  std::vector<double> plain;
  for (int i = -3; i < steps; ++i) {
    const double seconds = seconds_of(step);
    if (i >= 0) plain.push_back(seconds);
  }
  OperationTimes times;
  times.start();
  const double counted = seconds_of([&] {
    for (int i = 0; i < steps; ++i) step();
  });
  times.stop();
  std::printf("%s, %s: a step takes %.1f ms (median), %.1f ms while counting\n", size.name, c10::toString(dtype),
              median(plain) * 1e3, counted / steps * 1e3);
  times.print(counted, steps);
}

}  // namespace

int main(int argc, char** argv) {
  int repetitions = 20, threads = 1;
  std::vector<std::string> profiled;
  CLI::App app("axonn on one rank beside the same LibTorch calls by hand");
  app.add_option("--repetitions", repetitions, "interleaved pairs of steps");
  app.add_option("--threads", threads, "number of compute threads");
  app.add_option("--profile", profiled, "print where the time of a step goes: S, M, S-bf16, M-bf16")
      ->check(CLI::IsMember({"S", "M", "S-bf16", "M-bf16"}));
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  axonn::Environment environment;
  const Size sizes[] = {
      {"4 layers, hidden 128, 16 x 128",
       {.shape = {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256}},
       16},
      {"6 layers, hidden 384, 4 x 256",
       {.shape = {.layers = 6, .hidden = 384, .heads = 6, .sequence = 256, .vocabulary = 256}},
       4},
      {"4 layers, hidden 512, 2 x 256, 50257",
       {.shape = {.layers = 4, .hidden = 512, .heads = 8, .sequence = 256, .vocabulary = 50257}},
       2},
  };
  const Size peers[] = {
      {"GPT S", {.shape = {.layers = 6, .hidden = 384, .heads = 6, .sequence = 256, .vocabulary = 256}}, 12},
      {"GPT M", {.shape = {.layers = 8, .hidden = 768, .heads = 12, .sequence = 512, .vocabulary = 256}}, 4},
  };
  for (const std::string& what : profiled)
    profile(environment, peers[what[0] == 'S' ? 0 : 1], what.ends_with("bf16") ? at::kBFloat16 : at::kFloat,
            repetitions);
  if (!profiled.empty()) return 0;
  std::printf("%-34s %13s %13s %10s\n", "model", "axonn", "by hand", "ratio");
  for (const Size& size : sizes) measure(environment, size, repetitions);
  return 0;
}
