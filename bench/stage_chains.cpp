// stage_chains: pointwise kernels as stage chains on one thread, beside loops written by hand and
// beside the traffic bound, a loop that only moves the same bytes.
//   build/release/bin/stage_chains --from 14 --to 24
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <sys/mman.h>
#include <time.h>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/median.hpp"
#include "stage_chains_loops.hpp"

namespace {

using namespace axonn;
using coconet::ElementType;
using coconet::PointwiseKernel;
using coconet::PointwiseOp;
using coconet::StageChain;
using Value = PointwiseKernel::Value;

struct Options {
  int from = 10, to = 24, repetitions = 15;
  std::string set = std::string(to_string(coconet::best_instruction_set()));
};

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// In huge pages, so that no measurement depends on the page table.
template <typename T>
class Buffer {
 public:
  Buffer(size_t count, double value) {
    constexpr size_t kHuge = size_t{2} << 20;
    const size_t bytes = (count * sizeof(T) + kHuge - 1) / kHuge * kHuge;
    data_.reset(static_cast<T*>(std::aligned_alloc(kHuge, bytes)));
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < count; ++i) data_.get()[i] = static_cast<T>(value * static_cast<double>(1 + i % 7));
  }
  T* get() { return data_.get(); }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
};

constexpr bench::AdamWNumbers kNumbers{1, 0.9f, 0.1f, 0.95f, 0.05f, 1.5f, 1e-8f, -1e-4f, 0.9999f};

PointwiseKernel adamw(bool with_rounded) {
  using enum PointwiseOp;
  PointwiseKernel k;
  const auto stream = [&](const char* name) { return k.stream(name, ElementType::fp32); };
  const auto number = [&](float value) { return k.constant(double{value}, ElementType::fp32); };
  const auto w = stream("w"), g = stream("g"), m = stream("m"), v = stream("v");
  const Value x = k.apply(multiply, {k.load(g), number(kNumbers.scale)});
  const Value m1 = k.apply(fma, {number(kNumbers.beta1), k.load(m), k.apply(multiply, {number(kNumbers.rest1), x})});
  const Value square = k.apply(multiply, {number(kNumbers.rest2), k.apply(multiply, {x, x})});
  const Value v1 = k.apply(fma, {number(kNumbers.beta2), k.load(v), square});
  const Value root = k.apply(fma, {k.apply(square_root, {v1}), number(kNumbers.per_root), number(kNumbers.epsilon)});
  const Value kept = k.apply(multiply, {k.load(w), number(kNumbers.keep)});
  const Value w1 = k.apply(fma, {number(kNumbers.minus_step), k.apply(divide, {m1, root}), kept});
  k.store(m, m1);
  k.store(v, v1);
  k.store(w, w1);
  if (with_rounded) k.store(k.stream("rounded", ElementType::bf16), k.cast(w1, ElementType::bf16));
  return k;
}

PointwiseKernel squares() {
  PointwiseKernel k;
  const Value wide = k.cast(k.load(k.stream("g", ElementType::fp32)), ElementType::fp64);
  k.reduce(ReduceOp::sum, k.apply(PointwiseOp::multiply, {wide, wide}));
  return k;
}

PointwiseKernel gelu() {
  PointwiseKernel k;
  const auto x = k.stream("x", ElementType::fp32);
  k.store(x, k.apply(PointwiseOp::gelu_tanh, {k.load(x)}));
  return k;
}

// Prints for each call the median ns per element, and the median over the repetitions of the first
// call's time by its own.
void report(const char* what, size_t count, int repetitions, const std::vector<std::function<void()>>& calls) {
  std::vector<std::vector<double>> seconds(calls.size()), ratios(calls.size());
  const size_t inner = std::max<size_t>(1, (size_t{1} << 19) / count);
  for (int repetition = -1; repetition < repetitions; ++repetition)
    for (size_t i = 0; i < calls.size(); ++i) {
      const double start = thread_seconds();
      for (size_t k = 0; k < inner; ++k) calls[i]();
      const double taken = (thread_seconds() - start) / static_cast<double>(inner);
      if (repetition < 0) continue;  // the first repetition warms up
      seconds[i].push_back(taken);
      ratios[i].push_back(seconds[0].back() / taken);
    }
  std::printf("%-12s %9zu", what, count);
  for (auto& each : seconds) std::printf(" %8.3f", median(each) * 1e9 / static_cast<double>(count));
  for (size_t i = 1; i < calls.size(); ++i) std::printf(" %6.2f", median(ratios[i]));
  std::printf("\n");
}

void measure(const Options& options, size_t count) {
  const auto set = parse_name<coconet::InstructionSet>(options.set, "--set");
  Buffer<float> w(count, 1), g(count, 0.125), m(count, 0.1), v(count, 0.2);
  Buffer<uint16_t> rounded(count, 0);
  for (const bool with_rounded : {false, true}) {
    const StageChain chain(adamw(with_rounded), set);
    const bench::AdamWStreams loops{w.get(), g.get(), m.get(), v.get(), with_rounded ? rounded.get() : nullptr};
    void* const all[] = {w.get(), g.get(), m.get(), v.get(), rounded.get()};
    const coconet::StageCall call{.count = static_cast<int64_t>(count), .streams = {all, with_rounded ? 5u : 4u}};
    report(with_rounded ? "adamw bf16" : "adamw fp32", count, options.repetitions,
           {[&] { bench::adamw_traffic(loops, count, 0.001f); }, [&] { bench::adamw_loop(loops, count, kNumbers); },
            [&] { chain.run(call); }});
  }
  volatile double kept = 0;
  const StageChain norm(squares(), set);
  std::vector<double> partials(static_cast<size_t>(StageChain::num_partials(static_cast<int64_t>(count))));
  void* const read[] = {g.get()};
  double* const sums[] = {partials.data()};
  const coconet::StageCall call{.count = static_cast<int64_t>(count), .streams = read, .partials = sums};
  report("squares", count, options.repetitions,
         {[&] { kept = bench::sum_traffic(g.get(), count); }, [&] { kept = bench::squares_loop(g.get(), count); },
          [&] {
            norm.run(call);
            kept = StageChain::combine(ReduceOp::sum, partials);
          }});
  const StageChain activation(gelu(), set);
  void* const updated[] = {w.get()};
  const coconet::StageCall update{.count = static_cast<int64_t>(count), .streams = updated};
  report("gelu_tanh", count, options.repetitions,
         {[&] { bench::update_traffic(w.get(), count, 0.001f); }, [&] { activation.run(update); }});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Stage chains on one thread, beside hand-written loops and the traffic bound");
  app.add_option("--from", options.from, "log2 of the smallest number of elements");
  app.add_option("--to", options.to, "log2 of the largest number of elements");
  app.add_option("--repetitions", options.repetitions, "interleaved repetitions; medians are printed");
  app.add_option("--set", options.set, "instruction set: " + all_names<coconet::InstructionSet>());
  CLI11_PARSE(app, argc, argv);
  try {
    std::printf("thread CPU time; %s; ns per element, then speed relative to the bound\n", options.set.c_str());
    std::printf("%-12s %9s %8s %8s %8s %6s %6s\n", "kernel", "elements", "bound", "loop", "chain", "loop", "chain");
    for (int power = options.from; power <= options.to; power += 2) measure(options, size_t{1} << power);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stage_chains: %s\n", error.what());
    return 1;
  }
  return 0;
}
