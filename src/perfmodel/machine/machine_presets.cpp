// Peaks, memories and links are from data sheets. Hop latencies are from NCCL's tuning table for
// rings (protocol Simple: NVLink 3.4 us, PCI 5.7 us, network 14 us). Measured bandwidths are from
// the AxoNN authors' public scripts.
//
// gemm_efficiency: for MI250X (125 of 191.5 TFLOP/s) and GH200 (813 of 989), the rates that the
// AxoNN authors report for large products on Frontier and Alps. A100: 240 of 312, between their 280
// for the best size and the 225 that fused attention reaches. H100 as GH200.
//
// collective_share: NCCL uses at most 32 channels, one compute unit each, of 108 (A100), 132 (H100)
// or 110 (MI250X).
#include <array>
#include <string>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/machine/machine.hpp"

namespace axonn {
namespace {

constexpr double kNvlinkHop = 3.4e-6, kPciHop = 5.7e-6, kNetworkHop = 14e-6;

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

Machine perlmutter() {
  return with_levels(a100("perlmutter", 40, 1555), {{"node", 4, 200, kNvlinkHop}, {"network", 0, 100, kNetworkHop}},
                     {{1, 2, 76}, {1, 4, 225}, {1, 5, 80}, {2, 2, 76}, {2, 3, 40}, {4, 2, 20}});
}

Machine frontier() {
  const Machine gcd = {.name = "frontier",
                       .gpu = "MI250X GCD",
                       .memory_gib = 64,
                       .memory_bandwidth_gbps = 1638,
                       .peak_tflops = {191.5, 191.5, 47.9, 47.9},
                       .gemm_efficiency = 125 / 191.5,
                       .attention_efficiency = 0.3,
                       .collective_share = 32.0 / 110,
                       .dollars_per_gpu_hour = 1};
  return with_levels(gcd,
                     {{"card", 2, 200, kNvlinkHop}, {"node", 4, 100, kNvlinkHop}, {"network", 0, 100, kNetworkHop}},
                     {{1, 2, 129},
                      {1, 3, 52},
                      {1, 5, 135},
                      {1, 9, 40},
                      {2, 2, 50},
                      {2, 3, 72},
                      {2, 5, 20},
                      {4, 2, 36},
                      {4, 3, 10},
                      {8, 2, 5}});
}

std::vector<MachineLevel> pod(double nvlink_gbps, double network_gbps) {
  return {{"node", 8, nvlink_gbps, kNvlinkHop}, {"network", 0, network_gbps, kNetworkHop}};
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

const std::array<Machine, 7>& presets() {
  static const std::array<Machine, 7> all = {
      perlmutter(),
      frontier(),
      with_levels(h100("alps", "GH200", 96, 4000), {{"node", 4, 450, kNvlinkHop}, {"network", 0, 100, kNetworkHop}}),
      with_levels(a100("dgx-a100", 80, 2039), pod(300, 200)),
      with_levels(h100("dgx-h100", "H100", 80, 3350), pod(450, 400)),
      with_levels(h100("dgx-h200", "H200", 141, 4800), pod(450, 400)),
      workstation(),
  };
  return all;
}

}  // namespace

std::span<const Machine> machine_presets() { return presets(); }

Machine find_machine(const std::string& name_or_file) {
  std::vector<std::string> names;
  std::string all;
  for (const Machine& machine : machine_presets()) {
    if (machine.name == name_or_file) return machine;
    names.push_back(machine.name);
    all.append(all.empty() ? "" : ", ").append(machine.name);
  }
  if (name_or_file.ends_with(".toml") || name_or_file.find('/') != std::string::npos) return read_machine(name_or_file);
  const std::string nearest = did_you_mean(name_or_file, names);
  throw UserError("perfmodel.machine",
                  detail::concatenate("unknown machine '", name_or_file, "'",
                                      nearest.empty() ? "; the machines are " + all + ", or a .toml file" : nearest));
}

}  // namespace axonn
