// Reads and writes machines as TOML.
#include <sstream>
#include <string>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "config/toml_section.hpp"

namespace axonn {
namespace {

constexpr int64_t kMostUnits = 1 << 24;
constexpr std::array<const char*, 4> kPeaks = {"bf16_tflops", "fp16_tflops", "fp32_tflops", "fp64_tflops"};

const toml::array& tables_of(const TomlFile& file, std::string_view key, bool needed) {
  static const toml::array nothing;
  const toml::node* node = file.table.get(key);
  AXONN_CHECK(node != nullptr || !needed, "perfmodel.machine", file.name, ":1: [[", key,
              "]] is missing; a machine has at least one");
  if (node == nullptr) return nothing;
  AXONN_CHECK(node->is_array_of_tables() && !node->as_array()->empty(), "perfmodel.machine", place_of(file, *node),
              ": '", key, "' must be a list of tables, each under [[", key, "]]");
  return *node->as_array();
}

void read_gpu(const TomlFile& file, Machine& machine) {
  const toml::node* node = file.table.get("gpu");
  AXONN_CHECK(node != nullptr && node->is_table(), "perfmodel.machine", file.name, ":1: [gpu] is missing");
  TomlSection gpu(file, *node->as_table(), "[gpu]");
  machine.gpu = gpu.find_text("name").value_or("GPU");
  machine.memory_gib = gpu.number("memory_gib", 0);
  machine.memory_bandwidth_gbps = gpu.number("memory_bandwidth_gbps", 0);
  bool any = false;
  for (size_t i = 0; i < kPeaks.size(); ++i) {
    machine.peak_tflops[i] = gpu.number_or(kPeaks[i], 0, 0);
    any = any || machine.peak_tflops[i] > 0;
  }
  AXONN_CHECK(any, "perfmodel.machine", place_of(file, *node),
              ": [gpu] needs a peak: bf16_tflops, fp16_tflops, fp32_tflops or fp64_tflops");
  machine.gemm_efficiency = gpu.number_or("gemm_efficiency", 0.75, 0);
  machine.attention_efficiency = gpu.number_or("attention_efficiency", 0.4, 0);
  machine.memory_efficiency = gpu.number_or("memory_efficiency", 1, 0);
  machine.kernel_seconds = gpu.number_or("kernel_us", 0, 0, /*above=*/false) * 1e-6;
  machine.error_band = gpu.number_or("error_band", 0, 0, /*above=*/false);
  machine.collective_share = gpu.number_or("collective_share", 0.25, 0, /*above=*/false);
  machine.dollars_per_gpu_hour = gpu.number_or("dollars_per_hour", 0, 0, /*above=*/false);
  AXONN_CHECK(machine.gemm_efficiency <= 1 && machine.memory_efficiency <= 1 && machine.collective_share <= 1,
              "perfmodel.machine", place_of(file, *node),
              ": efficiencies and collective_share in [gpu] must be at most 1");
  AXONN_CHECK(machine.attention_efficiency <= kMostAttentionEfficiency, "perfmodel.machine", place_of(file, *node),
              ": attention_efficiency in [gpu] must be at most ", kMostAttentionEfficiency,
              ", as half of the scores that it counts are masked");
  gpu.refuse_unknown_keys();
}

void read_levels(const TomlFile& file, Machine& machine) {
  const toml::array& levels = tables_of(file, "level", /*needed=*/true);
  int64_t below = 1;
  for (const toml::node& node : levels) {
    TomlSection level(file, *node.as_table(), "[[level]]");
    const bool last = &node == &levels.back();
    MachineLevel read;
    read.name = level.find_text("name").value_or("level " + std::to_string(machine.levels.size() + 1));
    read.size = last ? level.find_integer("size", 0, kMostUnits).value_or(0) : level.integer("size", 1, kMostUnits);
    read.bandwidth_gbps = level.number("bandwidth_gbps", 0);
    read.latency_seconds = level.number_or("latency_us", 0, 0, /*above=*/false) * 1e-6;
    read.ll128_latency_seconds = level.number_or("ll128_latency_us", 0, 0, /*above=*/false) * 1e-6;
    read.tree_latency_seconds = level.number_or("tree_latency_us", 0, 0, /*above=*/false) * 1e-6;
    level.refuse_unknown_keys();
    if (!last) below *= read.size;
    AXONN_CHECK(below <= kMostUnits, "perfmodel.machine", place_of(file, node), ": the levels up to '", read.name,
                "' join ", below, " GPUs, more than ", kMostUnits);
    machine.levels.push_back(std::move(read));
  }
  AXONN_CHECK(machine.levels.size() <= 8, "perfmodel.machine", place_of(file, levels),
              ": a machine has at most 8 levels, got ", machine.levels.size());
}

Machine machine_of(const TomlFile& file) {
  TomlSection top(file, file.table, "the machine");
  Machine machine;
  machine.name = top.find_text("name").value_or(std::filesystem::path(file.name).stem().string());
  top.refuse_unknown_keys({"gpu", "level", "measured"});
  read_gpu(file, machine);
  read_levels(file, machine);
  for (const toml::node& node : tables_of(file, "measured", /*needed=*/false)) {
    TomlSection row(file, *node.as_table(), "[[measured]]");
    machine.measured.push_back({.inner = row.integer("inner", 1, kMostUnits),
                                .size = row.integer("size", 2, kMostUnits),
                                .gbps = row.number("gbps", 0)});
    row.refuse_unknown_keys();
  }
  return machine;
}

}  // namespace

Machine read_machine(const std::filesystem::path& path) { return machine_of(read_toml_file(path)); }

Machine parse_machine(std::string_view toml, std::string_view name) { return machine_of(parse_toml(toml, name)); }

std::string machine_toml(const Machine& machine) {
  std::ostringstream out;
  out.precision(10);
  out << "name = \"" << machine.name << "\"\n\n[gpu]\nname = \"" << machine.gpu
      << "\"\nmemory_gib = " << machine.memory_gib << "\nmemory_bandwidth_gbps = " << machine.memory_bandwidth_gbps
      << "\n";
  for (size_t i = 0; i < kPeaks.size(); ++i)
    if (machine.peak_tflops[i] > 0) out << kPeaks[i] << " = " << machine.peak_tflops[i] << "\n";
  out << "gemm_efficiency = " << machine.gemm_efficiency << "\nattention_efficiency = " << machine.attention_efficiency
      << "\nmemory_efficiency = " << machine.memory_efficiency << "\nkernel_us = " << machine.kernel_seconds * 1e6
      << "\ncollective_share = " << machine.collective_share << "\ndollars_per_hour = " << machine.dollars_per_gpu_hour
      << "\nerror_band = " << machine.error_band << "\n";
  for (const MachineLevel& level : machine.levels) {
    out << "\n[[level]]\nname = \"" << level.name << "\"\n";
    if (level.size > 0) out << "size = " << level.size << "\n";
    out << "bandwidth_gbps = " << level.bandwidth_gbps << "\nlatency_us = " << level.latency_seconds * 1e6 << "\n";
    if (level.ll128_latency_seconds > 0) out << "ll128_latency_us = " << level.ll128_latency_seconds * 1e6 << "\n";
    if (level.tree_latency_seconds > 0) out << "tree_latency_us = " << level.tree_latency_seconds * 1e6 << "\n";
  }
  for (const MeasuredBandwidth& row : machine.measured)
    out << "\n[[measured]]\ninner = " << row.inner << "\nsize = " << row.size << "\ngbps = " << row.gbps << "\n";
  return out.str();
}

}  // namespace axonn
