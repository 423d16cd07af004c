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

// Units that one kind of link joins, such as the GPUs of a node. 1 GB is 1e9 bytes, 1 GiB is 2^30.
struct MachineLevel {
  std::string name;
  // Units of the level below (innermost: GPUs) per unit of this level; 0: as many as a job needs.
  int64_t size = 0;
  double bandwidth_gbps = 0;   // GB/s of one such unit's link, in each direction, shared by the unit's GPUs
  double latency_seconds = 0;  // seconds per hop of a ring over these links
  // The same with NCCL's protocol LL128, which moves 120 bytes in 128; 0: there is none.
  double ll128_latency_seconds = 0;
  // Seconds per hop of NCCL's two binary trees, which are for all-reduces; 0: there are none.
  double tree_latency_seconds = 0;
};

// Bandwidth of a ring of at least `size` ranks whose neighbours are at least `inner` ranks apart
// (the product of the sizes of the inner axes). A group takes the row with the largest inner, then
// the largest size, that do not exceed its own.
struct MeasuredBandwidth {
  int64_t inner = 1;
  int64_t size = 2;
  double gbps = 0;
};

inline constexpr double kWidestBand = 0.53;  // the widest preset's, for machines with which no run was compared
inline constexpr double kMostAttentionEfficiency = 2;  // a causal mask hides half of the scores

struct Machine {
  std::string name;
  std::string gpu;
  std::vector<MachineLevel> levels;  // innermost first; sizes of all but the last are known
  double memory_gib = 0;             // GiB per GPU
  double memory_bandwidth_gbps = 0;
  double memory_efficiency = 1;         // share of it that norms, residual sums and the optimizer sustain
  std::array<double, 4> peak_tflops{};  // by Precision; 0: the GPU does not support it
  double gemm_efficiency = 0;           // share of the peak that large matrix products sustain
  double attention_efficiency = 0;      // the same for attention, masked scores counted: so it may exceed 1
  double kernel_seconds = 0;            // for every entry of a layer table, whatever its size: kernels start
  double collective_share = 0;          // share of the GPU's compute units that a running collective occupies
  double dollars_per_gpu_hour = 0;
  // Nine of ten predictions are within this share of the seconds that were measured; 0: no run was
  // compared.
  double error_band = 0;
  std::vector<MeasuredBandwidth> measured;

  double memory_bytes() const { return memory_gib * 1073741824.0; }
  double peak_flops(Precision precision) const { return peak_tflops.at(static_cast<size_t>(precision)) * 1e12; }
  double band() const { return error_band > 0 ? error_band : kWidestBand; }
  int64_t node_size() const;                                // GPUs below the last level: G_node of equation 10
  double measured_gbps(int64_t inner, int64_t size) const;  // UserError if no row fits
};

// Sizes of the levels that a job of `gpus` GPUs fills, innermost first; their product is `gpus`.
// UserError when the job does not fill whole nodes (with the nearest counts), or when the machine
// is too small.
std::vector<int64_t> level_sizes(const Machine& machine, int64_t gpus);
// Whether level_sizes() would return; for 1 <= gpus < 2^31.
bool fills_levels(const Machine& machine, int64_t gpus);

// perlmutter (the default everywhere), frontier, alps, dgx-a100, dgx-a100-40, dgx-h100, dgx-h200,
// workstation.
std::span<const Machine> machine_presets();

// Takes a preset's name, or a TOML file when the argument ends in .toml or has a slash. UserError
// with the nearest name, or with file:line and key.
Machine find_machine(const std::string& name_or_file);
Machine read_machine(const std::filesystem::path& file);
Machine parse_machine(std::string_view toml, std::string_view name);

// The text that parse_machine() reads.
std::string machine_toml(const Machine& machine);

}  // namespace axonn
