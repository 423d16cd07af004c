// attention_kernels: causal attention on one thread, beside LibTorch's
// scaled_dot_product_attention: forward, and forward and backward. Calls alternate; medians of
// processor seconds, so what else runs on the machine matters less.
//   build/release/bin/attention_kernels
#include <cstdio>
#include <ctime>
#include <functional>
#include <optional>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <torch/types.h>

#include <axonn/axonn.hpp>

#include "in_turns.hpp"

namespace {

double seconds_of(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

struct Options {
  int repetitions = 5;
  int64_t heads = 8, key_heads = 8, features = 64, window = 0;
  double dropout = 0;
};

void measure(axonn::Context& context, at::ScalarType type, int64_t tokens, const Options& options) {
  const auto random = [&](int64_t heads) {
    return at::randn({1, tokens, heads, options.features}).to(type).requires_grad_();
  };
  const axonn::AttentionHeads heads{random(options.heads), random(options.key_heads), random(options.key_heads)};
  const at::Tensor grad = at::randn({1, tokens, options.heads * options.features}).to(type);
  const axonn::AttentionOptions how{.heads = options.heads,
                                    .kv_heads = options.key_heads,
                                    .window = options.window,
                                    .dropout = options.dropout,
                                    .dropout_name = "bench"};
  std::optional<at::Tensor> mask;
  if (options.window > 0) mask = at::ones({tokens, tokens}, at::kBool).tril().triu(1 - options.window);
  const auto by_head = [&](const at::Tensor& some) {
    return some.repeat_interleave(options.heads / some.size(2), 2).transpose(1, 2);
  };
  const auto theirs = [&] {
    return at::scaled_dot_product_attention(by_head(heads.queries), by_head(heads.keys), by_head(heads.values), mask,
                                            options.dropout, options.window == 0)
        .transpose(1, 2)
        .reshape(grad.sizes());
  };
  const auto ours = [&] { return axonn::attention(context, heads, how).tensor; };
  const auto both = [&](const std::function<at::Tensor()>& forward) {
    return [&heads, &grad, forward] {
      for (const at::Tensor& each : {heads.queries, heads.keys, heads.values}) each.mutable_grad().reset();
      forward().backward(grad);
    };
  };
  const axonn::bench::InTurns forward = axonn::bench::in_turns(
                                  options.repetitions, seconds_of, [&] { theirs(); }, [&] { ours(); }),
                              all = axonn::bench::in_turns(options.repetitions, seconds_of, both(theirs), both(ours));
  std::printf("%-9s %6lld %10.1f ms %8.1f ms %6.2f %10.1f ms %8.1f ms %6.2f\n", c10::toString(type),
              static_cast<long long>(tokens), forward.theirs * 1e3, forward.ours * 1e3, forward.ratio, all.theirs * 1e3,
              all.ours * 1e3, all.ratio);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int64_t longest = 8192;
  CLI::App app("Causal attention beside LibTorch's, on one thread");
  app.add_option("--repetitions", options.repetitions, "interleaved repetitions; medians are printed");
  app.add_option("--longest", longest, "longest sequence, from 512 tokens on");
  app.add_option("--heads", options.heads, "heads of queries");
  app.add_option("--kv-heads", options.key_heads, "heads of keys and values");
  app.add_option("--features", options.features, "features of a head");
  app.add_option("--window", options.window, "keys that a query sees; 0: all before it");
  app.add_option("--dropout", options.dropout, "probability of dropping a probability");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  axonn::Environment environment;
  std::printf("%-9s %6s %13s %11s %6s %13s %11s %6s\n", "type", "tokens", "LibTorch fwd", "axonn", "ratio",
              "with backward", "axonn", "ratio");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    axonn::Context context(environment, {}, {.dtype = type});
    context.set_samples({.seed = 1, .first = 0});
    for (int64_t tokens = 512; tokens <= longest; tokens *= 2) measure(context, type, tokens, options);
  }
  return 0;
}
