#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "coconet/stages/kernel_oracle.hpp"

namespace axonn::coconet::test {

// So many kernels that a stage chain runs: one half of random instructions, the other one the loops
// of random programs under random schedules.
std::vector<PointwiseKernel> random_kernels(size_t count);

struct NamedKernel {
  std::string name;  // "adamw fuse pass1"
  PointwiseKernel kernel;
};
// The loops of every program of a folder under every schedule of the trainer.
std::vector<NamedKernel> kernels_of_programs(const std::filesystem::path& folder);

// Inputs of every kind for a kernel.
OracleInputs random_inputs(const PointwiseKernel& kernel, int64_t count, uint64_t seed);

}  // namespace axonn::coconet::test
