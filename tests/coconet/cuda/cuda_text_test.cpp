// CUDA text of kernels: compiled as C++, it gives the stage chain's bits.
#include "axonn/coconet/cuda/cuda_source.hpp"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "coconet/cuda/host_kernels.hpp"
#include "coconet/cuda/some_kernels.hpp"
#include "coconet/stages/chain_runs.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

using test::OracleInputs;
using Value = PointwiseKernel::Value;
using enum ElementType;

constexpr int64_t kCounts[] = {0, 1, 31, 33, 1023, 1024, 1025, 4097};
constexpr size_t kSome = 120;

// Beyond the call's elements, streams have some that stay.
void expect_chains_bits(const test::HostKernels& host, size_t kernel, const OracleInputs& inputs) {
  const PointwiseKernel& what = host.kernels()[kernel];
  std::vector<void*> streams;
  test::OracleResult need{inputs.streams, {}};
  for (std::vector<std::byte>& each : need.streams) streams.push_back(each.data());
  need.partials.assign(what.reductions().size(),
                       std::vector<double>(static_cast<size_t>(StageChain::num_partials(inputs.count))));
  std::vector<double*> partials;
  for (std::vector<double>& each : need.partials) partials.push_back(each.data());
  StageChain(what).run({.count = inputs.count,
                        .streams = streams,
                        .scalars = inputs.scalars,
                        .range_values = inputs.range_values,
                        .masks = inputs.masks,
                        .partials = partials});
  const auto shape = static_cast<unsigned>(kernel % 3);
  test::expect_same(what, host.run(kernel, inputs, 1 + shape, 32 << shape), need);
}

void expect_chains_bits(const test::HostKernels& host, size_t kernel, int64_t count) {
  OracleInputs inputs = test::random_inputs(host.kernels()[kernel], count + 5, kernel);
  inputs.count = count;
  expect_chains_bits(host, kernel, inputs);
}

void expect_chains_bits(std::vector<PointwiseKernel> kernels) {
  const test::HostKernels host(std::move(kernels));
  for (size_t i = 0; i < host.kernels().size(); ++i) {
    SCOPED_TRACE("kernel " + std::to_string(i));
    expect_chains_bits(host, i, kCounts[i % std::size(kCounts)]);
    if (testing::Test::HasFatalFailure()) FAIL() << cuda_kernel(host.kernels()[i], "k");
  }
}

TEST(CudaText, GivesTheChainsBitsOnRandomKernels) { expect_chains_bits(test::random_kernels(kSome)); }
TEST(CudaText, GivesTheChainsBitsOnAThousandRandomKernels) { expect_chains_bits(test::random_kernels(1000)); }

TEST(CudaText, GivesTheChainsBitsOnEveryOptimizer) {
  std::vector<PointwiseKernel> kernels;
  bool has_adamw = false, has_lamb = false;
  for (test::NamedKernel& each : test::kernels_of_programs(AXONN_SOURCE "/configs/programs")) {
    has_adamw |= each.name.starts_with("adamw fuse ");
    has_lamb |= each.name.starts_with("lamb rs-opt-ag ");
    kernels.push_back(std::move(each.kernel));
  }
  EXPECT_TRUE(has_adamw && has_lamb);
  EXPECT_GT(kernels.size(), 40u);
  expect_chains_bits(std::move(kernels));
}

// Every operation in every type: rare forms and rare values.
TEST(CudaText, GivesTheChainsBitsInEveryOperationAndType) {
  std::vector<PointwiseKernel> kernels;
  for (const auto& [name, op] : Names<PointwiseOp>::all)
    for (const ElementType type : {fp64, fp32, bf16, fp16}) {
      PointwiseKernel& k = kernels.emplace_back();
      const auto a = k.load(k.stream("a", type)), b = k.load(k.stream("b", type)), c = k.load(k.stream("c", type));
      std::vector<Value> operands = {a, b, c};
      operands.resize(op >= PointwiseOp::fma ? 3 : op < PointwiseOp::negate ? 2 : 1);
      if (op == PointwiseOp::select) operands[0] = k.cast(a, boolean);
      k.store(k.stream("out", type), k.cast(k.apply(op, operands), type));
    }
  const test::HostKernels host(std::move(kernels));
  for (size_t i = 0; i < host.kernels().size(); ++i) {
    SCOPED_TRACE("kernel " + std::to_string(i));
    expect_chains_bits(host, i, 3000);
  }
}

TEST(CudaText, ReadsBackEveryConstant) {
  std::vector<PointwiseKernel> kernels;
  for (const double number :
       {0.1, -0.1, 0.0, -0.0, 1e-310, 1e300, 3e-45, 16777217.0, std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const ElementType type : {fp64, fp32, bf16, fp16}) {
      PointwiseKernel& k = kernels.emplace_back();
      const auto out = k.stream("out", type);
      k.store(out, k.apply(PointwiseOp::select, {k.cast(k.load(out), boolean), k.constant(number, type),
                                                 k.apply(PointwiseOp::negate, {k.constant(number, type)})}));
    }
  expect_chains_bits(std::move(kernels));
}

// Numbers without infinities and NaN, which would hide the order of additions.
TEST(CudaText, ReducesInTheChainsOrder) {
  constexpr int64_t kCount = 2 * StageChain::kReductionBlock + 1234;
  std::vector<PointwiseKernel> kernels;
  for (const ElementType type : {fp64, fp32, bf16, fp16}) {
    PointwiseKernel& k = kernels.emplace_back();
    const Value x = k.load(k.stream("x", type)), wide = k.cast(x, fp64);
    for (const auto kind : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) k.reduce(kind, x);
    k.reduce(ReduceOp::sum, k.apply(PointwiseOp::multiply, {wide, wide}));
  }
  const test::HostKernels host(std::move(kernels));
  for (size_t i = 0; i < host.kernels().size(); ++i) {
    const ElementType type = host.kernels()[i].streams()[0].type;
    SCOPED_TRACE(to_string(type));
    OracleInputs inputs{.count = kCount, .streams = {std::vector<std::byte>(kCount * bytes_of(type))}};
    std::mt19937_64 random(11);
    std::lognormal_distribution<double> sizes(0, 2);
    for (int64_t e = 0; e < kCount; ++e)
      test::encode(inputs.streams[0].data() + e * bytes_of(type), e % 3 == 0 ? -sizes(random) : sizes(random), type);
    expect_chains_bits(host, i, inputs);
  }
}

// Every thread loads before it stores.
TEST(CudaText, StreamsMayShareTheirMemory) {
  PointwiseKernel k;
  const auto w = k.stream("w", fp32), doubled = k.stream("doubled", fp32), next = k.stream("next", fp32);
  k.store(doubled, k.apply(PointwiseOp::multiply, {k.load(w), k.constant(2, fp32)}));
  k.may_share(w, doubled);
  k.store(next, k.apply(PointwiseOp::add, {k.load(w), k.constant(1, fp32)}));
  const test::HostKernels host({k});
  std::vector<float> same(77, 3), other(77);
  host.launch(0, {.count = 77}, {same.data(), same.data(), other.data()}, {}, 2, 32);
  EXPECT_EQ(same, std::vector<float>(77, 6));
  EXPECT_EQ(other, std::vector<float>(77, 4));
}

TEST(CudaText, ReadsAsTheKernelIsWritten) {
  PointwiseKernel k;
  const auto g = k.stream("g.part", bf16), w = k.stream("g_part", fp32);
  const Value rate = k.scalar("lr", fp32), decay = k.range_value("decay", fp32);
  const Value keep =
      k.apply(PointwiseOp::subtract, {k.constant(1, fp32), k.apply(PointwiseOp::multiply, {rate, decay})});
  k.store(w, k.apply(PointwiseOp::fma, {k.apply(PointwiseOp::negate, {rate}), k.cast(k.load(g), fp32),
                                        k.apply(PointwiseOp::multiply, {keep, k.load(w)})}));
  EXPECT_EQ(cuda_kernel(k, "sgd"), R"(namespace axonn::coconet {

extern "C" __global__ void sgd(
    int64_t count,
    const uint16_t* stream_g_part,
    float* stream_g_part_2,
    double scalar_lr,
    double range_decay) {
  const float n3 = static_cast<float>(scalar_lr) * static_cast<float>(range_decay);
  const float n4 = 1.0f - n3;
  const float n5 = -static_cast<float>(scalar_lr);
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {
    const float v7 = stream_g_part_2[i];
    const float v6 = widen_bf16(stream_g_part[i]);
    const float v8 = n4 * v7;
    const float v9 = fma_of(n5, v6, v8);
    stream_g_part_2[i] = v9;
  }
}

}  // namespace axonn::coconet
)");
  EXPECT_EQ(cuda_options()[1], "--fmad=false");
}

// ---- Wrong use ----

TEST(CudaText, RefusesNamesThatAreNoIdentifiers) {
  PointwiseKernel k;
  k.store(k.stream("out", fp32), k.constant(1, fp32));
  for (const char* name : {"", "1st", "a b", "w1.part"})
    EXPECT_USER_ERROR(cuda_kernel(k, name), "letters, digits and _ only", name);
}

TEST(CudaText, RefusesMoreNumbersThanAKernelMayHave) {
  PointwiseKernel k;
  const auto s = k.stream("s", fp32);
  Value sum = k.load(s);
  for (int i = 0; i < 70; ++i) sum = k.apply(PointwiseOp::add, {sum, k.constant(i, fp32)});
  k.store(s, sum);
  EXPECT_USER_ERROR(cuda_kernel(k, "k"), "may be at most 64 numbers, got 70");
}

}  // namespace
}  // namespace axonn::coconet
