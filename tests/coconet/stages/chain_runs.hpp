#pragma once

#include <vector>

#include "coconet/stages/kernel_oracle.hpp"

namespace axonn::coconet::test {

// The instruction sets of this processor.
std::vector<InstructionSet> all_sets();

// Elements of many kinds: NaN, infinities, both zeros, subnormal numbers, ties, and numbers.
std::vector<std::byte> random_elements(ElementType type, int64_t count, uint64_t seed);

// A whole run, with streams at odd addresses. Fails if a byte beside a stream changed.
OracleResult run_chain(const StageChain& chain, const PointwiseKernel& kernel, const OracleInputs& inputs);

// Fails at the first number that differs; NaN is equal to NaN, and 0 is not equal to -0.
void expect_same(const PointwiseKernel& kernel, const OracleResult& got, const OracleResult& need);

}  // namespace axonn::coconet::test
