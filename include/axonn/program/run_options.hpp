#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axonn/config/option_table.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/layers/gemm.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/terms/precision.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

enum class DeviceKind : uint8_t { cpu, cuda };

// What can be set for a run of any model, one struct a concern. Values have been read, and mean something each by itself; run_plan.hpp says
// whether they fit each other.

// Where the ranks of the grid lie. Section [run].
struct PlacementOptions {
  std::optional<GridShape> grid = GridShape();  // nothing: the planner's best for `machine`
  std::string machine;                          // that the planner knows the links and speeds of
  AxisOrder order = kDefaultOrder;

  void bind(OptionTable& table);
};

// In what and on what is computed. Section [run].
struct NumericsOptions {
  Precision dtype = Precision::fp32;
  std::optional<Precision> gradient_dtype;  // nothing: fp32 with narrow weights, else as dtype
  std::optional<GemmKernel> gemm;           // nothing: as measured at start
  DeviceKind device = DeviceKind::cpu;

  void bind(OptionTable& table);
  c10::Device c10_device() const;
};

// What moves when, and how gradients are summed. Section [overlap].
struct CommunicationOptions {
  OverlapPolicy overlap;
  int64_t split_forward = 1;  // see ContextOptions
  std::optional<std::vector<ReductionProgram>> reduction = std::vector<ReductionProgram>();  // empty: rings; nothing: the planner's best

  void bind(OptionTable& table);
};

struct RunOptions {
  PlacementOptions placement;
  NumericsOptions numerics;
  CommunicationOptions communication;
  TrainConfig train;

  // Keys of files and flags: sections [run], [overlap] and [train]. `samples`: what a batch is made of, "sequences".
  void bind(OptionTable& table, const std::string& samples);
};

at::ScalarType scalar_type(Precision precision);

}  // namespace axonn
