// Peaks, memories and links are from data sheets. Hop latencies are from NCCL's tuning table for
// rings: with protocol Simple 3.4 us over NVLink, 5.7 us over PCI, 14 us over the network; with
// LL128, on NVIDIA's machines only, 1.9 us and 4 us; for trees 1.25 us and 8.5 us with LL128, 4 us
// and 14 us with Simple. Measured bandwidths are from the AxoNN authors' public scripts.
//
// gemm_efficiency: for MI250X (125 of 191.5 TFLOP/s) and GH200 (813 of 989), the rates that the
// AxoNN authors report for large products on Frontier and Alps. A100 in perlmutter: 240 of 312,
// between their 280 for the best size and the 225 that fused attention reaches.
//
// dgx-a100, dgx-a100-40, dgx-h100, dgx-h200: kFittedA100 and kFittedH100 are what
// `axonn-config fit` found for the published runs of MPT with FSDP, in
// bench/published/mpt_fsdp_{a100,h100}.csv, with each weight as a message. With those of a block in
// one it finds others, with errors within 0.2 points of these. Those that it keeps have the values
// of a100() and h100(). error_band: nine of ten of these runs, when the fit did not see them
// (`validate`). There are no runs on H200: the H100's constants, no band.
//
// The network of frontier: 40 GB/s per node, as the AxoNN authors measured for rings of more than
// one node, not the links' 100.
//
// error_band of perlmutter, frontier and alps: nine of ten rows of bench/published on the machine
// beside these constants (`validate`, "constants of the preset"; a test holds it). Most of that
// software is slower than they.
//
// collective_share: NCCL uses at most 32 channels, one compute unit each, of 108 (A100), 132 (H100)
// or 110 (MI250X).
#include <array>
#include <string>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/machine/machine.hpp"

namespace axonn {
namespace {

constexpr double kNvlinkHop = 3.4e-6, kPciHop = 5.7e-6, kNetworkHop = 14e-6;
constexpr double kNvlinkShortHop = 1.9e-6, kNetworkShortHop = 4e-6;
constexpr double kNvlinkTreeHop = 1.25e-6, kNetworkTreeHop = 8.5e-6;  // LL128
constexpr double kSimpleInnerTreeHop = 4e-6, kSimpleTreeHop = 14e-6;  // Simple

Machine a100(std::string name, double memory_gib, double memory_bandwidth_gbps) {
  return {.name = std::move(name),
          .gpu = "A100",
          .memory_gib = memory_gib,
          .memory_bandwidth_gbps = memory_bandwidth_gbps,
          .peak_tflops = {312, 312, 19.5, 19.5},
          .gemm_efficiency = 240.0 / 312,
          .attention_efficiency = 0.4,
          .collective_share = 32.0 / 108,
          .dollars_per_gpu_hour = 1.8};
}

Machine h100(std::string name, std::string gpu, double memory_gib, double memory_bandwidth_gbps) {
  return {.name = std::move(name),
          .gpu = std::move(gpu),
          .memory_gib = memory_gib,
          .memory_bandwidth_gbps = memory_bandwidth_gbps,
          .peak_tflops = {989, 989, 67, 67},
          .gemm_efficiency = 813.0 / 989,
          .attention_efficiency = 0.4,
          .collective_share = 32.0 / 132,
          .dollars_per_gpu_hour = 3.5};
}

Machine with_levels(Machine machine, std::vector<MachineLevel> levels, std::vector<MeasuredBandwidth> measured = {}) {
  machine.levels = std::move(levels);
  machine.measured = std::move(measured);
  return machine;
}

std::vector<MachineLevel> nvidia_levels(int64_t node, double nvlink_gbps, double network_gbps) {
  return {{"node", node, nvlink_gbps, kNvlinkHop, kNvlinkShortHop, kNvlinkTreeHop},
          {"network", 0, network_gbps, kNetworkHop, kNetworkShortHop, kNetworkTreeHop}};
}

Machine with_band(Machine machine, double band) {
  machine.error_band = band;
  return machine;
}

struct Fitted {
  double gemm, attention, memory, share, kernel_us, network_gbps, band;
};
constexpr Fitted kFittedA100 = {.gemm = 0.765,
                                .attention = 0.5429,
                                .memory = 0.5904,
                                .share = 0.6242,
                                .kernel_us = 0,
                                .network_gbps = 179.4,
                                .band = 0.081};
constexpr Fitted kFittedH100 = {.gemm = 0.6735,
                                .attention = 0.3172,
                                .memory = 0.5067,
                                .share = 0.8045,
                                .kernel_us = 0,
                                .network_gbps = 400,
                                .band = 0.054};

// Nodes of 8 GPUs.
Machine pod(Machine machine, double nvlink_gbps, const Fitted& fitted) {
  machine.gemm_efficiency = fitted.gemm;
  machine.attention_efficiency = fitted.attention;
  machine.memory_efficiency = fitted.memory;
  machine.collective_share = fitted.share;
  machine.kernel_seconds = fitted.kernel_us * 1e-6;
  return with_band(with_levels(std::move(machine), nvidia_levels(8, nvlink_gbps, fitted.network_gbps)), fitted.band);
}

Machine perlmutter() {
  const Machine machine = with_levels(a100("perlmutter", 40, 1555), nvidia_levels(4, 200, 100),
                                      {{1, 2, 76}, {1, 4, 225}, {1, 5, 80}, {2, 2, 76}, {2, 3, 40}, {4, 2, 20}});
  return with_band(machine, 0.23);
}

Machine frontier() {
  constexpr double kFrontierRing = 40;
  const Machine gcd = {.name = "frontier",
                       .gpu = "MI250X GCD",
                       .memory_gib = 64,
                       .memory_bandwidth_gbps = 1638,
                       .peak_tflops = {191.5, 191.5, 47.9, 47.9},
                       .gemm_efficiency = 125 / 191.5,
                       .attention_efficiency = 0.3,
                       .collective_share = 32.0 / 110,
                       .dollars_per_gpu_hour = 1,
                       .error_band = 0.34};
  return with_levels(gcd,
                     {{"card", 2, 200, kNvlinkHop, 0, kSimpleInnerTreeHop},
                      {"node", 4, 100, kNvlinkHop, 0, kSimpleInnerTreeHop},
                      {"network", 0, kFrontierRing, kNetworkHop, 0, kSimpleTreeHop}},
                     {{1, 2, 129},
                      {1, 3, 52},
                      {1, 5, 135},
                      {1, 9, kFrontierRing},
                      {2, 2, 50},
                      {2, 3, 72},
                      {2, 5, 20},
                      {4, 2, 36},
                      {4, 3, 10},
                      {8, 2, 5}});
}

Machine workstation() {
  return {.name = "workstation",
          .gpu = "RTX 4090",
          .levels = {{"board", 8, 25, kPciHop}},
          .memory_gib = 24,
          .memory_bandwidth_gbps = 1008,
          .peak_tflops = {165, 165, 82.6, 1.3},
          .gemm_efficiency = 0.8,
          .attention_efficiency = 0.4,
          .collective_share = 32.0 / 128,
          .dollars_per_gpu_hour = 0.4};
}

const std::array<Machine, 8>& presets() {
  static const std::array<Machine, 8> all = {
      perlmutter(),
      frontier(),
      with_band(with_levels(h100("alps", "GH200", 96, 4000), nvidia_levels(4, 450, 100)), 0.53),
      pod(a100("dgx-a100", 80, 2039), 300, kFittedA100),
      pod(a100("dgx-a100-40", 40, 1555), 300, kFittedA100),
      pod(h100("dgx-h100", "H100", 80, 3350), 450, kFittedH100),
      with_band(pod(h100("dgx-h200", "H200", 141, 4800), 450, kFittedH100), 0),
      workstation(),
  };
  return all;
}

}  // namespace

std::span<const Machine> machine_presets() { return presets(); }

Machine find_machine(const std::string& name_or_file) {
  std::vector<std::string> names;
  for (const Machine& machine : machine_presets()) {
    if (machine.name == name_or_file) return machine;
    names.push_back(machine.name);
  }
  if (name_or_file.ends_with(".toml") || name_or_file.find('/') != std::string::npos) return read_machine(name_or_file);
  const std::string nearest = did_you_mean(name_or_file, names);
  throw UserError(
      "perfmodel.machine",
      detail::concatenate("unknown machine '", name_or_file, "'",
                          nearest.empty() ? "; the machines are " + join(names, ", ") + ", or a .toml file" : nearest));
}

}  // namespace axonn
