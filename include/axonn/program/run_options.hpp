#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axonn/config/option_table.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/kernels/cpu/gemm.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/terms/forward_schedule.hpp"
#include "axonn/terms/precision.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

enum class DeviceKind : uint8_t { cpu, cuda };

// The options of a run of any model, one struct per topic. Each value is valid by itself;
// run_plan.hpp checks whether they fit each other.

// Placement of the ranks of the grid. Section [run].
struct PlacementOptions {
  std::optional<GridShape> grid = GridShape();  // nullopt: the planner's best for `machine`
  std::string machine;                          // the planner knows its links and speeds
  AxisOrder order = kDefaultOrder;

  void bind(OptionTable& table);
};

// Types, kernels and device of the computation. Section [run].
struct NumericsOptions {
  Precision dtype = Precision::fp32;
  std::optional<Precision> gradient_dtype;  // nullopt: fp32 with narrow weights, otherwise as dtype
  std::optional<GemmKernel> gemm;           // nullopt: as measured at start
  DeviceKind device = DeviceKind::cpu;
  GpuKernels gpu_kernels;
  KernelChoice kernels;

  void bind(OptionTable& table);
  c10::Device c10_device() const;
};

// Overlap of communication, and how gradients are summed. Section [overlap].
struct CommunicationOptions {
  OverlapPolicy overlap;
  ForwardSchedule forward = {};
  // empty: rings; nullopt: the planner's best
  std::optional<std::vector<ReductionProgram>> reduction = std::vector<ReductionProgram>();

  void bind(OptionTable& table);
};

struct RunOptions {
  PlacementOptions placement;
  NumericsOptions numerics;
  CommunicationOptions communication;
  TrainConfig train;
  std::string choices;  // folder that keeps measured choices for later runs; empty: none

  // Keys of files and flags: sections [run], [overlap] and [train]. `samples` is the name of the
  // samples, such as "sequences".
  void bind(OptionTable& table, const std::string& samples);
};

at::ScalarType scalar_type(Precision precision);

}  // namespace axonn
