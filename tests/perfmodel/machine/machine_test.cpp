#include "axonn/perfmodel/machine/machine.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr std::string_view kMine = R"(name = "mine"

[gpu]
memory_gib = 16
memory_bandwidth_gbps = 900
fp16_tflops = 112

[[level]]
name = "node"
size = 8
bandwidth_gbps = 50

[[level]]
bandwidth_gbps = 12.5
latency_us = 5

[[measured]]
inner = 1
size = 2
gbps = 40
)";

std::string with(std::string_view line, std::string_view other) {
  std::string text(kMine);
  return text.replace(text.find(line), line.size(), other);
}

std::string complaint(const std::string& toml) {
  try {
    parse_machine(toml, "mine.toml");
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "";
}

TEST(Machine, IsReadFromItsFile) {
  const Machine machine = parse_machine(kMine, "mine.toml");
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.node_size(), 8);
  EXPECT_EQ(machine.levels[1].size, 0);
  EXPECT_DOUBLE_EQ(machine.levels[1].latency_seconds, 5e-6);
  EXPECT_EQ(machine.peak_flops(Precision::fp16), 112e12);
  EXPECT_EQ(machine.peak_flops(Precision::bf16), 0);
  EXPECT_EQ(machine.measured_gbps(1, 7), 40);
}

TEST(Machine, EveryPresetSurvivesItsFile) {
  for (const Machine& preset : machine_presets()) {
    const Machine read = parse_machine(machine_toml(preset), "preset.toml");
    EXPECT_EQ(read.name, preset.name);
    EXPECT_EQ(read.node_size(), preset.node_size());
    EXPECT_EQ(read.measured.size(), preset.measured.size());
    EXPECT_NEAR(read.gemm_efficiency, preset.gemm_efficiency, 1e-9);
    EXPECT_NEAR(read.kernel_seconds, preset.kernel_seconds, 1e-12);
    EXPECT_NEAR(read.memory_efficiency, preset.memory_efficiency, 1e-9);
    EXPECT_NEAR(read.levels[0].ll128_latency_seconds, preset.levels[0].ll128_latency_seconds, 1e-12);
    EXPECT_NEAR(read.levels[0].tree_latency_seconds, preset.levels[0].tree_latency_seconds, 1e-12);
    EXPECT_NEAR(read.error_band, preset.error_band, 1e-9);
    EXPECT_EQ(read.peak_tflops, preset.peak_tflops);
    EXPECT_EQ(read.levels.size(), preset.levels.size());
  }
}

TEST(Machine, ComplaintsNameFileLineAndKey) {
  EXPECT_EQ(complaint(with("memory_gib = 16", "memory_gib = -16")),
            "mine.toml:4: 'memory_gib' in [gpu] must be greater than 0, got -16");
  EXPECT_EQ(complaint(with("memory_gib = 16\n", "")), "mine.toml:3: 'memory_gib' is missing in [gpu]");
  EXPECT_EQ(complaint(with("memory_gib = 16", "memory_gb = 16")),
            "mine.toml:3: 'memory_gib' is missing in [gpu]; did you mean it by 'memory_gb'?");
  EXPECT_EQ(complaint(with("fp16_tflops", "fp17_tflops = 1\nfp16_tflops")),
            "mine.toml:6: unknown key 'fp17_tflops' in [gpu]; did you mean 'fp16_tflops'?");
  EXPECT_EQ(complaint(with("bandwidth_gbps = 12.5", "bandwidth_gbps = 0")),
            "mine.toml:14: 'bandwidth_gbps' in [[level]] must be greater than 0, got 0");
  EXPECT_EQ(complaint(with("size = 8\n", "")), "mine.toml:8: 'size' is missing in [[level]]");
  EXPECT_EQ(complaint(with("size = 8", "size = 8.5")), "mine.toml:10: 'size' in [[level]] must be a whole number");
  EXPECT_EQ(complaint(with("gbps = 40", "gbps = nan")), "mine.toml:20: 'gbps' in [[measured]] must be a number");
  EXPECT_EQ(complaint(with("[[measured]]", "[[mesured]]")),
            "mine.toml:17: unknown key 'mesured' in the machine; did you mean 'measured'?");
  EXPECT_EQ(complaint(with("fp16_tflops = 112", "")),
            "mine.toml:3: [gpu] needs a peak: bf16_tflops, fp16_tflops, fp32_tflops or fp64_tflops");
  EXPECT_EQ(complaint("[gpu]\nmemory_gib = = 1"),
            "mine.toml:2: Error while parsing value: could not determine value type");
  EXPECT_NE(complaint(with("size = 8", "size = 9223372036854775807")).find("mine.toml:10"), std::string::npos);
  EXPECT_EQ(complaint("name = 'x'"), "mine.toml:1: [gpu] is missing");
  EXPECT_THROW(read_machine("none.toml"), UserError);
}

TEST(Machine, UnknownPresetsAreAnsweredWithTheNearest) {
  try {
    find_machine("perlmuter");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.sentence(), "unknown machine 'perlmuter'; did you mean 'perlmutter'?");
  }
}

TEST(Machine, JobsFillWholeNodes) {
  const Machine machine = find_machine("perlmutter");
  EXPECT_EQ(level_sizes(machine, 32), (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(level_sizes(machine, 4), (std::vector<int64_t>{4}));
  EXPECT_EQ(level_sizes(machine, 2), (std::vector<int64_t>{2}));
  EXPECT_EQ(level_sizes(machine, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(level_sizes(find_machine("frontier"), 64), (std::vector<int64_t>{2, 4, 8}));
  try {
    level_sizes(machine, 30);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.sentence(),
              "30 GPUs do not fill units of 4 (node) of machine perlmutter; the nearest counts that do are 28 and 32");
  }
  EXPECT_THROW(level_sizes(find_machine("workstation"), 16), UserError);
  EXPECT_THROW(level_sizes(machine, 0), UserError);
}

TEST(Machine, SaysWithoutAnErrorWhetherJobsFillWholeNodes) {
  for (const Machine& machine : machine_presets()) {
    int64_t filled = 0;
    for (int64_t gpus = 1; gpus <= 100; ++gpus) {
      bool fills = true;
      try {
        level_sizes(machine, gpus);
      } catch (const UserError&) {
        fills = false;
      }
      EXPECT_EQ(fills_levels(machine, gpus), fills) << machine.name << " " << gpus;
      filled += fills ? 1 : 0;
    }
    EXPECT_GT(filled, 3) << machine.name;
    EXPECT_LT(filled, 100) << machine.name;
  }
}

TEST(MachineFile, MayHaveLettersBeyondAsciiInStringsAndComments) {
  std::string text = machine_toml(find_machine("workstation"));
  text.replace(text.find("workstation"), 11, "B\u00fcro \\\" 2");
  EXPECT_EQ(parse_machine("# B\u00fcro\n" + text, "a.toml").name, "B\u00fcro \" 2");
  EXPECT_USER_ERROR(parse_machine("# B\u00fcro\n" + text + "x = \u00fc\n", "a.toml"),
                    "a letter that is not ASCII may stand only in a string or a comment");
}

}  // namespace
}  // namespace axonn
