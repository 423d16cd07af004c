#include "axonn/coconet/stages/stage_chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"
#include "coconet/stages/chain_runs.hpp"
#include "coconet/stages/random_kernel.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

using test::OracleInputs;
using Value = PointwiseKernel::Value;
using enum ElementType;

constexpr int64_t kCounts[] = {0, 1, 15, 16, 17, 31, 33, 4095, 4097};

// ---- Numbers ----

TEST(StageChain, IsEqualToTheOracleOnRandomKernels) {
  for (uint64_t seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomKernel random(seed, static_cast<int>(1 + seed % 40), true, seed % 3 == 0);
    const OracleInputs inputs = random.inputs(kCounts[seed % std::size(kCounts)]);
    const auto need = test::run_oracle(random.kernel(), inputs);
    for (const InstructionSet set : test::all_sets()) {
      SCOPED_TRACE(to_string(set));
      const StageChain chain(random.kernel(), set);
      test::expect_same(random.kernel(), test::run_chain(chain, random.kernel(), inputs), need);
      if (HasFatalFailure()) FAIL() << chain.describe();
    }
  }
}

TEST(StageChain, GivesTheSameBitsOnEveryInstructionSet) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomKernel random(seed, static_cast<int>(1 + seed % 30), false, seed % 2 == 0);
    const OracleInputs inputs = random.inputs(kCounts[seed % std::size(kCounts)]);
    const auto need = test::run_chain(StageChain(random.kernel(), InstructionSet::plain), random.kernel(), inputs);
    for (const InstructionSet set : test::all_sets()) {
      SCOPED_TRACE(to_string(set));
      const StageChain chain(random.kernel(), set);
      test::expect_same(random.kernel(), test::run_chain(chain, random.kernel(), inputs), need);
      if (HasFatalFailure()) FAIL() << chain.describe();
    }
  }
}

// Every operation by itself, in every type: rare forms and rare values.
TEST(StageChain, ComputesEachOperationInEachType) {
  for (const auto& [name, op] : Names<PointwiseOp>::all)
    for (const ElementType type : test::kNumberTypes) {
      SCOPED_TRACE(std::string(name) + " " + std::string(to_string(type)));
      PointwiseKernel kernel;
      const auto a = kernel.load(kernel.stream("a", type)), b = kernel.load(kernel.stream("b", type)),
                 c = kernel.load(kernel.stream("c", type));
      const size_t count = op >= PointwiseOp::fma ? 3 : op < PointwiseOp::negate ? 2 : 1;
      std::vector<Value> operands = {a, b, c};
      operands.resize(count);
      if (op == PointwiseOp::select) operands[0] = kernel.cast(a, boolean);
      kernel.store(kernel.stream("out", type), kernel.cast(kernel.apply(op, operands), type));
      OracleInputs inputs{.count = 3000};
      for (uint64_t s = 0; s < 4; ++s) inputs.streams.push_back(test::random_elements(type, inputs.count, s));
      const auto need = test::is_exact(op) ? test::run_oracle(kernel, inputs)
                                           : test::run_chain(StageChain(kernel, InstructionSet::plain), kernel, inputs);
      for (const InstructionSet set : test::all_sets()) {
        SCOPED_TRACE(to_string(set));
        test::expect_same(kernel, test::run_chain(StageChain(kernel, set), kernel, inputs), need);
      }
    }
}

TEST(StageChain, CastsBetweenAllTypes) {
  for (const ElementType from : test::kNumberTypes)
    for (const ElementType to : test::kNumberTypes) {
      SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
      PointwiseKernel kernel;
      kernel.store(kernel.stream("out", to), kernel.cast(kernel.load(kernel.stream("in", from)), to));
      // Streams are declared in the order of evaluation, which is not fixed.
      OracleInputs inputs{.count = 1 << 12};
      for (const auto& each : kernel.streams())
        inputs.streams.push_back(test::random_elements(each.type, inputs.count, 3));
      const auto need = test::run_oracle(kernel, inputs);
      for (const InstructionSet set : test::all_sets()) {
        SCOPED_TRACE(to_string(set));
        test::expect_same(kernel, test::run_chain(StageChain(kernel, set), kernel, inputs), need);
      }
    }
}

// Numbers without infinities and NaN, which would hide the order of additions.
TEST(StageChain, ReducesInTheOrderOfItsRule) {
  constexpr int64_t kCount = 2 * StageChain::kReductionBlock + 1234;
  for (const ElementType type : test::kNumberTypes) {
    SCOPED_TRACE(to_string(type));
    PointwiseKernel kernel;
    const Value x = kernel.load(kernel.stream("x", type)), wide = kernel.cast(x, fp64);
    for (const auto kind : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) kernel.reduce(kind, x);
    kernel.reduce(ReduceOp::sum, kernel.apply(PointwiseOp::multiply, {wide, wide}));
    kernel.reduce(ReduceOp::sum, kernel.apply(PointwiseOp::is_finite, {x}));
    OracleInputs inputs{.count = kCount};
    inputs.streams.emplace_back(static_cast<size_t>(kCount * bytes_of(type)));
    std::mt19937_64 random(11);
    std::lognormal_distribution<double> sizes(0, 2);
    for (int64_t i = 0; i < kCount; ++i)
      test::encode(inputs.streams[0].data() + i * bytes_of(type), i % 3 == 0 ? -sizes(random) : sizes(random), type);
    const auto need = test::run_oracle(kernel, inputs);
    EXPECT_EQ(StageChain::combine(ReduceOp::sum, need.partials[4]), kCount);
    for (const InstructionSet set : test::all_sets()) {
      SCOPED_TRACE(to_string(set));
      test::expect_same(kernel, test::run_chain(StageChain(kernel, set), kernel, inputs), need);
    }
  }
}

// All 65536 numbers of fp16 and bf16, loaded and stored again.
TEST(StageChain, LoadsAndStoresEveryHalf) {
  for (const ElementType type : {bf16, fp16}) {
    PointwiseKernel kernel;
    const auto in = kernel.stream("in", type), wide = kernel.stream("wide", fp32), out = kernel.stream("out", type);
    kernel.store(wide, kernel.cast(kernel.load(in), fp32));
    kernel.store(out, kernel.load(in));
    OracleInputs inputs{.count = 1 << 16,
                        .streams = {{}, std::vector<std::byte>(4 << 16), std::vector<std::byte>(2 << 16)}};
    for (int word = 0; word < 1 << 16; ++word)
      for (const int byte : {word & 255, word >> 8}) inputs.streams[0].push_back(static_cast<std::byte>(byte));
    const auto need = test::run_oracle(kernel, inputs);
    for (const InstructionSet set : test::all_sets())
      test::expect_same(kernel, test::run_chain(StageChain(kernel, set), kernel, inputs), need);
  }
}

// ---- Errors of the polynomials ----

double libm(PointwiseOp op, double x, double y) {
  switch (op) {
    case PointwiseOp::power:
      return std::pow(x, y);
    case PointwiseOp::exponential:
    case PointwiseOp::fast_exponential:
      return std::exp(x);
    case PointwiseOp::logarithm:
      return std::log(x);
    case PointwiseOp::tanh:
      return std::tanh(x);
    case PointwiseOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case PointwiseOp::gelu:
      return x / 2 * std::erfc(-x * std::sqrt(0.5));
    default: {
      const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
  }
}

// In units of the last place of fp64 or of fp32; 0 where both are NaN or infinite alike.
double error_in_ulps(double got, double need, ElementType type) {
  if ((std::isnan(got) && std::isnan(need)) || got == need) return 0;
  int exponent = 0;
  std::frexp(need, &exponent);
  return std::abs(got - need) /
         std::ldexp(1.0, type == fp64 ? std::max(exponent - 53, -1074) : std::max(exponent - 24, -149));
}

double largest_error(PointwiseOp op, ElementType type, double low, double high, double exponent_high) {
  PointwiseKernel kernel;
  const auto x = kernel.stream("x", type), y = kernel.stream("y", type), out = kernel.stream("out", type);
  const Value a = kernel.load(x), b = kernel.load(y);
  kernel.store(out, op == PointwiseOp::power ? kernel.apply(op, {a, b}) : kernel.apply(op, {a}));
  constexpr int64_t kCount = 20000;
  OracleInputs inputs{.count = kCount, .streams = std::vector(3, std::vector<std::byte>(kCount * bytes_of(type)))};
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> base(low, high), exponent(-exponent_high, exponent_high);
  for (int64_t i = 0; i < kCount; ++i) {
    test::encode(inputs.streams[0].data() + i * bytes_of(type), base(random), type);
    test::encode(inputs.streams[1].data() + i * bytes_of(type), exponent(random), type);
  }
  const auto result = test::run_chain(StageChain(kernel), kernel, inputs);
  double worst = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto at = [&](const std::vector<std::byte>& stream) {
      return test::decode(stream.data() + i * bytes_of(type), type);
    };
    const double need = libm(op, at(inputs.streams[0]), at(inputs.streams[1]));
    if (type == fp32 && std::abs(need) > std::numeric_limits<float>::max()) continue;
    worst = std::max(worst, error_in_ulps(at(result.streams[2]), need, type));
  }
  return worst;
}

TEST(StageChain, HasPolynomialsWithinTheirErrors) {
  struct Row {
    PointwiseOp op;
    double low, high, exponent, fp64_ulps;
    double fp32_ulps = 0.501;
  };
  for (const Row& row :
       {Row{PointwiseOp::exponential, -745, 709, 0, 1}, Row{PointwiseOp::exponential, -1, 1, 0, 1},
        Row{PointwiseOp::logarithm, 1e-300, 1e-290, 0, 1}, Row{PointwiseOp::logarithm, 0.5, 2, 0, 1},
        Row{PointwiseOp::tanh, -1, 1, 0, 2}, Row{PointwiseOp::tanh, -25, 25, 0, 2}, Row{PointwiseOp::gelu, -1, 1, 0, 4},
        Row{PointwiseOp::gelu, -5, 5, 0, 8}, Row{PointwiseOp::gelu_tanh, -1, 1, 0, 4},
        Row{PointwiseOp::sigmoid, -5, 5, 0, 3, 2}, Row{PointwiseOp::sigmoid, -700, 700, 0, 3, 2},
        Row{PointwiseOp::fast_exponential, -1, 1, 0, 1, 1}, Row{PointwiseOp::fast_exponential, -745, 709, 0, 1, 1},
        Row{PointwiseOp::power, 0, 10, 5, 1}, Row{PointwiseOp::power, 0, 1e6, 40, 4}}) {
    SCOPED_TRACE(std::string(to_string(row.op)) + " to " + std::to_string(row.high));
    EXPECT_LE(largest_error(row.op, fp64, row.low, row.high, row.exponent), row.fp64_ulps);
    EXPECT_LE(
        largest_error(row.op, fp32, std::max(row.low, -80.0), std::min(row.high, 80.0), std::min(row.exponent, 20.0)),
        row.fp32_ulps);
  }
}

TEST(StageChain, HasAFastExponentialThatEndsAtTheRangeOfFp32) {
  PointwiseKernel kernel;
  const auto x = kernel.stream("x", fp32);
  kernel.store(x, kernel.apply(PointwiseOp::fast_exponential, {kernel.load(x)}));
  for (const InstructionSet set : test::all_sets()) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    float values[] = {-infinity, -100, -87.1f, 0, 1000, infinity, std::numeric_limits<float>::quiet_NaN()};
    void* const streams[] = {values};
    StageChain(kernel, set).run({.count = 7, .streams = streams});
    EXPECT_EQ(std::vector(values, values + 4), (std::vector<float>{0, 0, 0, 1}));
    EXPECT_NEAR(values[4] / std::exp(88.0), 1, 1e-6);
    EXPECT_EQ(values[5], values[4]);
    EXPECT_TRUE(std::isnan(values[6]));
  }
}

TEST(StageChain, FollowsPowOnSpecialNumbers) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double numbers[] = {0,  -0.0,   1,          -1,     0.5,       -0.5,     2,         -2, 3,
                            -3, 0x1p52, 0x1p52 + 1, 0x1p53, -0x1.8p51, infinity, -infinity, nan};
  PointwiseKernel kernel;
  const auto x = kernel.stream("x", fp64), y = kernel.stream("y", fp64), out = kernel.stream("out", fp64);
  kernel.store(out, kernel.apply(PointwiseOp::power, {kernel.load(x), kernel.load(y)}));
  std::vector<double> bases, exponents;
  for (const double a : numbers)
    for (const double b : numbers) {
      bases.push_back(a);
      exponents.push_back(b);
    }
  std::vector<double> results(bases.size());
  std::vector<void*> streams = {bases.data(), exponents.data(), results.data()};
  StageChain(kernel).run({.count = static_cast<int64_t>(bases.size()), .streams = streams});
  for (size_t i = 0; i < bases.size(); ++i) {
    const double need = std::pow(bases[i], exponents[i]);
    EXPECT_TRUE((std::isnan(need) && std::isnan(results[i])) ||
                (error_in_ulps(results[i], need, fp64) <= 1 && std::signbit(need) == std::signbit(results[i])))
        << bases[i] << " to " << exponents[i] << ": got " << results[i] << ", need " << need;
  }
}

TEST(StageChain, ComputesPowersByConstantsExactly) {
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 4.0}) {
    SCOPED_TRACE(exponent);
    PointwiseKernel kernel;
    const auto x = kernel.stream("x", fp64), out = kernel.stream("out", fp64);
    kernel.store(out, kernel.apply(PointwiseOp::power, {kernel.load(x), kernel.constant(exponent, fp64)}));
    const StageChain chain(kernel);
    EXPECT_EQ(chain.describe().find("power") == std::string::npos, exponent != 4) << chain.describe();
    std::vector<double> bases = {0.1, 0.7, 1.3, 3}, results(4);
    void* const streams[] = {bases.data(), results.data()};
    chain.run({.count = 4, .streams = streams});
    for (size_t i = 0; i < 4; ++i) {
      const double b = bases[i];
      EXPECT_EQ(results[i], exponent == 0     ? 1
                            : exponent == 1   ? b
                            : exponent == 2   ? b * b
                            : exponent == 3   ? b * b * b
                            : exponent == -1  ? 1 / b
                            : exponent == 0.5 ? std::sqrt(b)
                                              : results[i]);
    }
  }
}

// ---- Programs ----

// One AdamW update of fp32 weights. bf16: the weights' rounded copy is stored too.
PointwiseKernel adamw(bool with_bf16) {
  PointwiseKernel k;
  const auto w = k.stream("w", fp32), g = k.stream("g", fp32), m = k.stream("m", fp32), v = k.stream("v", fp32);
  const auto number = [&](const char* name) { return k.scalar(name, fp32); };
  const Value scale = number("scale"), beta1 = number("beta1"), beta2 = number("beta2"), rate = number("rate"),
              step = number("step"), epsilon = number("epsilon"), decay = k.range_value("decay", fp32);
  const Value one = k.constant(1, fp32);
  using enum PointwiseOp;
  const Value rest1 = k.apply(subtract, {one, beta1}), rest2 = k.apply(subtract, {one, beta2});
  const Value correction1 = k.apply(subtract, {one, k.apply(power, {beta1, step})});
  const Value correction2 = k.apply(subtract, {one, k.apply(power, {beta2, step})});
  const Value per_root = k.apply(divide, {one, k.apply(square_root, {correction2})});
  const Value minus_step = k.apply(negate, {k.apply(divide, {rate, correction1})});
  const Value keep = k.apply(subtract, {one, k.apply(multiply, {rate, decay})});
  const Value x = k.apply(multiply, {k.load(g), scale});
  const Value m1 = k.apply(fma, {beta1, k.load(m), k.apply(multiply, {rest1, x})});
  const Value v1 = k.apply(fma, {beta2, k.load(v), k.apply(multiply, {rest2, k.apply(multiply, {x, x})})});
  const Value root = k.apply(fma, {k.apply(square_root, {v1}), per_root, epsilon});
  const Value w1 = k.apply(fma, {minus_step, k.apply(divide, {m1, root}), k.apply(multiply, {k.load(w), keep})});
  k.store(m, m1);
  k.store(v, v1);
  k.store(w, w1);
  if (with_bf16) k.store(k.stream("rounded", bf16), k.cast(w1, bf16));
  return k;
}

TEST(StageChain, JoinsAdamWToTwelveStages) {
  const StageChain chain(adamw(false));
  EXPECT_EQ(chain.num_stages(), 12) << chain.describe();
  EXPECT_EQ(StageChain(adamw(true)).num_stages(), 13);
  const std::string text = StageChain(adamw(false), InstructionSet::plain).describe();
  EXPECT_NE(text.find("per element, plain, 8 elements per round\n"
                      "  r0 = multiply(g, scale)\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("once per call, plain\n"), std::string::npos) << text;
  EXPECT_NE(text.find(", w = r0\n  end\n"), std::string::npos) << text;
}

// A chain is a constant: threads share it. Cuts at blocks give the same partial results.
TEST(StageChain, RunsOnManyThreadsAndInPieces) {
  PointwiseKernel kernel = adamw(true);
  const Value g = kernel.cast(kernel.load({1}), fp64);
  kernel.reduce(ReduceOp::sum, kernel.apply(PointwiseOp::multiply, {g, g}));
  constexpr int64_t kCount = 5 * StageChain::kReductionBlock + 77, kCut = 2 * StageChain::kReductionBlock;
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> w(kCount), grad(kCount), m(kCount), v(kCount, 1);
  for (auto* each : {&w, &grad, &m}) std::ranges::generate(*each, [&] { return normal(random); });
  std::vector<uint16_t> rounded(kCount);
  auto w2 = w, m2 = m, v2 = v;
  auto rounded2 = rounded;
  const StageChain chain(kernel);
  EXPECT_NE(chain.describe().find("reduce_squares(r0)"), std::string::npos) << chain.describe();
  const std::vector<double> scalars = {1, 0.9, 0.95, 1e-3, 3, 1e-8}, decay = {0.1};
  std::vector<double> partials(6), partials2(6);
  const auto run = [&](int64_t begin, int64_t end, std::vector<float>& to_w, std::vector<float>& to_m,
                       std::vector<float>& to_v, std::vector<uint16_t>& to_rounded, std::vector<double>& sums) {
    void* const streams[] = {to_w.data() + begin, grad.data() + begin, to_m.data() + begin, to_v.data() + begin,
                             to_rounded.data() + begin};
    double* const to_partials[] = {sums.data() + begin / StageChain::kReductionBlock};
    chain.run(
        {.count = end - begin, .streams = streams, .scalars = scalars, .range_values = decay, .partials = to_partials});
  };
  run(0, kCount, w, m, v, rounded, partials);
  std::thread other([&] { run(0, kCut, w2, m2, v2, rounded2, partials2); });
  run(kCut, kCount, w2, m2, v2, rounded2, partials2);
  other.join();
  EXPECT_EQ(w, w2);
  EXPECT_EQ(m, m2);
  EXPECT_EQ(v, v2);
  EXPECT_EQ(rounded, rounded2);
  EXPECT_EQ(partials, partials2);
  double squares = 0;
  for (const double each : grad) squares += each * each;
  EXPECT_NEAR(StageChain::combine(ReduceOp::sum, partials), squares, squares * 1e-13);
}

TEST(StageChain, DrawsDropoutAsTheLayer) {
  PointwiseKernel kernel;
  const auto x = kernel.stream("x", fp32);
  kernel.store(x, kernel.apply(PointwiseOp::multiply, {kernel.load(x), kernel.dropout_mask("mlp")}));
  for (const InstructionSet set : test::all_sets())
    for (const double probability : {0.0, 0.1, 1 - 0x1p-40}) {
      std::vector<float> values(101, 1);
      void* const streams[] = {values.data()};
      const MaskInput masks[] = {
          {.probability = probability, .seed = 1ull << 40 | 9, .stream = 3, .first = (1ll << 34) + 2}};
      StageChain(kernel, set).run({.count = 101, .streams = streams, .masks = masks});
      for (uint64_t i = 0; i < values.size(); ++i) {
        const uint64_t element = (1ull << 34) + 2 + i;
        const bool drops = to_uniform(philox(1ull << 40 | 9, element / 4, 0, 3)[element % 4]) < probability;
        ASSERT_EQ(values[i], drops ? 0.0f : static_cast<float>(1 / (1 - probability))) << i;
      }
    }
}

// ---- Wrong use ----

// All of n squares wait for the last sum.
PointwiseKernel with_waiting_values(int n) {
  PointwiseKernel k;
  const auto s = k.stream("s", fp32);
  std::vector<Value> values = {k.load(s)};
  for (int i = 0; i < n; ++i) values.push_back(k.apply(PointwiseOp::multiply, {values.back(), values.back()}));
  Value sum = values.back();
  for (int i = 1; i < n; ++i) sum = k.apply(PointwiseOp::add, {sum, values[static_cast<size_t>(i)]});
  k.store(s, sum);
  return k;
}

TEST(StageChain, RefusesMoreThanItsLimits) {
  EXPECT_GT(StageChain(with_waiting_values(30)).num_stages(), 60);
  EXPECT_USER_ERROR(StageChain(with_waiting_values(60)), "more than 32 values", "cut it in two");
  PointwiseKernel k;
  const auto s = k.stream("s", fp32);
  Value sum = k.load(s);
  for (int i = 0; i < 70; ++i) sum = k.apply(PointwiseOp::add, {sum, k.constant(i, fp32)});
  k.store(s, sum);
  EXPECT_USER_ERROR(StageChain(k), "may be at most 64 numbers, got 70");
}

TEST(StageChain, RefusesCallsThatDoNotFit) {
  PointwiseKernel k;
  const auto a = k.stream("a", fp32), b = k.stream("b", fp32);
  const Value x = k.apply(PointwiseOp::multiply, {k.load(a), k.scalar("factor", fp32)});
  k.store(b, k.apply(PointwiseOp::multiply, {x, k.dropout_mask("d")}));
  const StageChain chain(k);
  float memory[64] = {};
  void* streams[] = {memory, memory + 32};
  const double scalars[] = {1};
  MaskInput masks[] = {{.probability = 0.5}};
  const StageCall good{.count = 32, .streams = streams, .scalars = scalars, .masks = masks};
  chain.run(good);
  const auto with = [&](auto change) {
    StageCall call = good;
    change(call);
    return call;
  };
  EXPECT_USER_ERROR(chain.run(with([](StageCall& call) { call.count = -1; })), "0 elements or more, got -1");
  EXPECT_USER_ERROR(chain.run(with([](StageCall& call) { call.scalars = {}; })), "1 scalars, the call gives 0");
  EXPECT_USER_ERROR(chain.run(with([](StageCall& call) { call.count = 33; })), "streams 'a' and 'b' overlap");
  masks[0].probability = 1;
  EXPECT_USER_ERROR(chain.run(good), "probability must be in [0, 1), got 1");
  masks[0].probability = 0;
  streams[1] = nullptr;
  EXPECT_USER_ERROR(chain.run(good), "stream 'b' is null");
}

TEST(StageChain, RefusesInstructionSetsThatThisProcessorLacks) {
  for (const auto& [name, set] : Names<InstructionSet>::all) {
    if (runs_here(set)) continue;
    EXPECT_USER_ERROR(StageChain(adamw(false), set), std::string("this processor has no ") + std::string(name));
  }
  EXPECT_TRUE(runs_here(best_instruction_set()));
  EXPECT_TRUE(runs_here(InstructionSet::plain));
}

// The store to one comes behind the last load of the other, wherever it was written.
TEST(StageChain, StreamsMayShareTheirMemory) {
  PointwiseKernel kernel;
  const auto w = kernel.stream("w", ElementType::fp32), doubled = kernel.stream("doubled", ElementType::fp32),
             next = kernel.stream("next", ElementType::fp32);
  const auto two = kernel.constant(2, ElementType::fp32), one = kernel.constant(1, ElementType::fp32);
  kernel.store(doubled, kernel.apply(PointwiseOp::multiply, {kernel.load(w), two}));
  PointwiseKernel apart = kernel;
  kernel.may_share(w, doubled);
  kernel.store(next, kernel.apply(PointwiseOp::add, {kernel.load(w), one}));
  for (const auto& row : Names<InstructionSet>::all) {
    if (!runs_here(row.value)) continue;
    std::vector<float> same(77, 3), other(77);
    void* streams[] = {same.data(), same.data(), other.data()};
    StageChain(kernel, row.value).run({.count = 77, .streams = streams});
    EXPECT_EQ(same, std::vector<float>(77, 6)) << row.name;
    EXPECT_EQ(other, std::vector<float>(77, 4)) << row.name;
    EXPECT_USER_ERROR(StageChain(apart, row.value).run({.count = 77, .streams = streams}), "overlap");
  }
  PointwiseKernel types;
  const auto wide = types.stream("wide", ElementType::fp64), narrow = types.stream("narrow", ElementType::fp32);
  EXPECT_USER_ERROR(types.may_share(wide, narrow), "need one type, got fp64 and fp32");
}

}  // namespace
}  // namespace axonn::coconet
