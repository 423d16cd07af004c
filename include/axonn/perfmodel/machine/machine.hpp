#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/terms/precision.hpp"

namespace axonn {

// Units that one kind of link joins: GPUs of a node, nodes of a network. "GB" is 1e9 bytes, "GiB" 2^30.
struct MachineLevel {
  std::string name;
  int64_t size = 0;            // units of the level below (of the innermost: GPUs) in one unit of this level; 0: as many as a job asks for
  double bandwidth_gbps = 0;   // GB/s of the link that joins one of those units, each way; what the GPUs of the unit share
  double latency_seconds = 0;  // of one hop of a ring over such links
};

// Bandwidth of a ring of `size` or more ranks when `inner` or more ranks lie between its neighbours (the product of the sizes of the axes
// further inside). Rows with the largest inner, then the largest size, that do not exceed the group's count.
struct MeasuredBandwidth {
  int64_t inner = 1;
  int64_t size = 2;
  double gbps = 0;
};

struct Machine {
  std::string name;
  std::string gpu;
  std::vector<MachineLevel> levels;  // innermost first; sizes of all but the last are known
  double memory_gib = 0;             // of a GPU
  double memory_bandwidth_gbps = 0;
  std::array<double, 4> peak_tflops{};  // by Precision; 0: the GPU does not have it
  double gemm_efficiency = 0;           // of the peak that large matrix products sustain
  double attention_efficiency = 0;      // of the peak that fused attention sustains, the whole square counted
  double collective_share = 0;          // of the GPU's compute units that a collective takes while it runs
  double dollars_per_gpu_hour = 0;
  std::vector<MeasuredBandwidth> measured;

  double memory_bytes() const { return memory_gib * 1073741824.0; }
  double peak_flops(Precision precision) const { return peak_tflops.at(static_cast<size_t>(precision)) * 1e12; }
  int64_t node_size() const;                                // GPUs below the last level: G_node of equation 10; 1 with a single level
  double measured_gbps(int64_t inner, int64_t size) const;  // UserError where the machine has no row for it
};

// Sizes of the levels that a job of so many GPUs fills, innermost first; their product is `gpus`. UserError with the nearest counts when
// whole nodes are not filled, or when the machine is too small.
std::vector<int64_t> level_sizes(const Machine& machine, int64_t gpus);

// perlmutter (the default everywhere), frontier, alps, dgx-a100, dgx-h100, dgx-h200, workstation.
std::span<const Machine> machine_presets();

// A preset by name, or a TOML file when the name ends in .toml or has a slash. UserError with the nearest name, or with file:line and key.
Machine find_machine(const std::string& name_or_file);
Machine read_machine(const std::filesystem::path& file);
Machine parse_machine(std::string_view toml, std::string_view name);

// What parse_machine() reads.
std::string machine_toml(const Machine& machine);

}  // namespace axonn
