#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "axonn/coconet/stages/pointwise_kernel.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"

// A kernel computed element by element with the scalar arithmetic of C++, without anything of the
// chain's: what StageChain is tested against.
namespace axonn::coconet::test {

// A number rounded to a type, as a double.
double rounded(double number, ElementType type);

// Elements in memory.
double decode(const std::byte* from, ElementType type);
void encode(std::byte* to, double number, ElementType type);

struct OracleInputs {
  int64_t count = 0;
  std::vector<std::vector<std::byte>> streams;
  std::vector<double> scalars, range_values;
  std::vector<MaskInput> masks;
};

struct OracleResult {
  std::vector<std::vector<std::byte>> streams;  // after the run
  std::vector<std::vector<double>> partials;    // per reduction and block
};

OracleResult run_oracle(const PointwiseKernel& kernel, const OracleInputs& inputs);

}  // namespace axonn::coconet::test
