#include "measure_machine.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <axonn/comm/communicators.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/median.hpp>
#include <axonn/kernels/choice/device_choice.hpp>
#include <axonn/layers/attention.hpp>
#include <axonn/layers/context.hpp>
#include <axonn/train/report/gemm_peak.hpp>

namespace {

using axonn::Axis;
using axonn::Machine;

constexpr const char* kWhere = "axonn_calibrate";
constexpr double kGibibyte = 1073741824.0;

std::string text_of(const char* format, double a, double b = 0) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, a, b);
  return buffer;
}

class Measurer {
 public:
  Measurer(axonn::Environment& environment, const Calibration& calibration)
      : environment_(environment),
        calibration_(calibration),
        device_(axonn::choose_device(calibration.device, environment.local_rank())) {}

  // The minimum or maximum of a number over the ranks.
  double over_ranks(double value, axonn::ReduceOp op) {
    const at::Tensor tensor = at::tensor({value}, at::kDouble);
    environment_.world().all_reduce(tensor, op).wait();
    return tensor.item<double>();
  }

  // Median over the repetitions of the slowest rank's seconds; the first one warms up.
  template <typename Call>
  double seconds(const Call& call) {
    std::vector<double> all;
    for (int repetition = -1; repetition < calibration_.repetitions; ++repetition) {
      environment_.world().barrier().wait();
      const auto start = std::chrono::steady_clock::now();
      call();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const double slowest = over_ranks(took.count(), axonn::ReduceOp::max);
      if (repetition >= 0) all.push_back(slowest);
    }
    return axonn::median(all);
  }

  // All groups of `size` ranks `inner` apart, at the same time: GB/s of one ring, seconds per hop.
  struct Link {
    double gbps = 0, hop_seconds = 0;
  };
  Link link(int inner, int size) {
    const axonn::Grid grid({.x = inner, .y = size, .z = environment_.ranks() / (inner * size)});
    axonn::Communicators communicators(environment_, grid, environment_.rank(), device_);
    axonn::Communicator& group = communicators[Axis::y];
    const auto all_reduce = [&](const at::Tensor& data) {
      group.all_reduce(data).wait();
      (void)data[0].item<float>();  // waits for the device
    };
    const at::Tensor one = at::zeros({1}, options(at::kFloat)),
                     many = at::zeros({calibration_.bytes / 4}, options(at::kFloat));
    const double short_seconds = seconds([&] { all_reduce(one); }), long_seconds = seconds([&] { all_reduce(many); });
    const double hops = 2.0 * (size - 1), moved = hops / size * static_cast<double>(many.numel() * 4);
    return {.gbps = moved / long_seconds / 1e9, .hop_seconds = short_seconds / hops};
  }

  double copy_gbps() {
    const at::Tensor from = at::zeros({1 << 25}, options(at::kFloat)), to = at::zeros({1 << 25}, options(at::kFloat));
    const double spent = seconds([&] {
      to.copy_(from);
      (void)to[0].item<float>();
    });
    return 2.0 * static_cast<double>(from.nbytes()) / spent / 1e9;
  }

  double product_tflops(at::ScalarType dtype) {
    std::vector<double> all;
    for (int repetition = 0; repetition < calibration_.repetitions; ++repetition) {
      environment_.world().barrier().wait();
      const double flops = axonn::measure_gemm_flops(dtype, device_);
      all.push_back(over_ranks(flops, axonn::ReduceOp::sum) / environment_.ranks() / 1e12);
    }
    return axonn::median(all);
  }

  // Of causal attention, a third of forward and backward, with the masked scores, which the planner
  // counts too. By one rank each, at the same time.
  double attention_tflops() {
    constexpr int64_t kTokens = 2048, kHeads = 4, kFeatures = 64;
    axonn::Context alone(environment_, {}, {.device = device_, .job_ranks = {environment_.rank()}});
    const auto random = [&] {
      return at::randn({1, kTokens, kHeads, kFeatures}, options(at::kFloat)).requires_grad_();
    };
    const axonn::AttentionHeads heads{random(), random(), random()};
    const at::Tensor grad = at::randn({1, kTokens, kHeads * kFeatures}, options(at::kFloat));
    const double spent = seconds([&] { axonn::attention(alone, heads, {.heads = kHeads}).tensor.backward(grad); });
    return 3.0 * 4 * kTokens * kTokens * kHeads * kFeatures / spent / 1e12;
  }

  bool cpu() const { return device_.is_cpu(); }

 private:
  at::TensorOptions options(at::ScalarType dtype) const { return at::TensorOptions().dtype(dtype).device(device_); }

  axonn::Environment& environment_;
  const Calibration& calibration_;
  c10::Device device_;
};

int check_nodes(Measurer& measurer, const axonn::Environment& environment) {
  AXONN_CHECK(environment.ranks() > 1, kWhere,
              "one rank by itself has no links to measure; start as many ranks as the machine runs: ",
              "mpirun -n RANKS axonn-config calibrate, or srun --mpi=pmix axonn-config calibrate");
  const double here = environment.local_ranks();
  const double least = measurer.over_ranks(here, axonn::ReduceOp::min),
               most = measurer.over_ranks(here, axonn::ReduceOp::max);
  AXONN_CHECK(least == most, kWhere, "nodes must have equal numbers of ranks, got from ", least, " to ", most);
  const bool in_order = environment.local_rank() == environment.rank() % environment.local_ranks();
  AXONN_CHECK(measurer.over_ranks(in_order ? 1 : 0, axonn::ReduceOp::min) == 1, kWhere,
              "ranks must be numbered node by node: --map-by ppr:", least, ":node, or srun --distribution=block");
  return environment.local_ranks();
}

void measure_work(Measurer& measurer, const Calibration& calibration, int local_ranks, Machine& machine) {
  const std::vector<at::ScalarType> types = {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble};  // index: Precision
  const std::vector<size_t> measured = measurer.cpu() ? std::vector<size_t>{0, 2, 3} : std::vector<size_t>{0, 1, 2, 3};
  for (const size_t i : measured) {
    const auto precision = static_cast<axonn::Precision>(i);
    const double tflops = measurer.product_tflops(types[i]);
    calibration.say("products of " + std::string(to_string(precision)) + text_of(": %.4g TFLOP/s per rank", tflops));
    if (calibration.base.empty())
      machine.peak_tflops[i] = tflops;
    else if (i == 0)
      machine.gemm_efficiency = std::min(1.0, tflops / machine.peak_tflops[0]);
  }
  machine.memory_bandwidth_gbps = measurer.copy_gbps();
  calibration.say(text_of("copies: %.4g GB/s per rank, read and written", machine.memory_bandwidth_gbps));
  if (!calibration.base.empty()) return;
  struct sysinfo memory{};
  AXONN_CHECK(sysinfo(&memory) == 0, kWhere, "the system does not tell its memory");
  machine.memory_gib = static_cast<double>(memory.totalram) * memory.mem_unit / kGibibyte / local_ranks;
  machine.gemm_efficiency = 1;
  const double attention = measurer.attention_tflops();
  machine.attention_efficiency = std::min(axonn::kMostAttentionEfficiency, attention / machine.peak_tflops[2]);
  calibration.say(
      text_of("attention: %.2f times as fast as products, if masked scores are counted", machine.attention_efficiency));
}

void measure_links(Measurer& measurer, const Calibration& calibration, int ranks, int local_ranks, Machine& machine) {
  axonn::MachineLevel node = {.name = "node", .size = local_ranks}, network = {.name = "network"};
  for (int inner = 1; inner < ranks; ++inner) {
    for (int size = 2; inner * size <= ranks; ++size) {
      if (ranks % (inner * size) != 0) continue;
      const auto link = measurer.link(inner, size);
      machine.measured.push_back({.inner = inner, .size = size, .gbps = link.gbps});
      calibration.say("groups of " + std::to_string(size) + " ranks, " + std::to_string(inner) + " apart, " +
                      std::to_string(ranks / size) + " at once" +
                      text_of(": %.4g GB/s, %.1f us a hop", link.gbps, link.hop_seconds * 1e6));
      if (inner == 1 && size == local_ranks) node.bandwidth_gbps = link.gbps, node.latency_seconds = link.hop_seconds;
      if (inner == local_ranks && inner * size == ranks)
        network.bandwidth_gbps = link.gbps * local_ranks, network.latency_seconds = link.hop_seconds;
    }
  }
  machine.levels.clear();
  if (local_ranks > 1) machine.levels.push_back(node);
  if (local_ranks < ranks) machine.levels.push_back(network);
}

}  // namespace

axonn::Machine measure_machine(axonn::Environment& environment, const Calibration& calibration) {
  AXONN_CHECK(calibration.device == c10::kCPU || !calibration.base.empty(), kWhere,
              "the memory and price of a GPU are a preset's: --base dgx-h100, say");
  Machine machine = calibration.base.empty() ? Machine() : axonn::find_machine(calibration.base);
  Measurer measurer(environment, calibration);
  const int local_ranks = check_nodes(measurer, environment), ranks = environment.ranks();
  machine.name = calibration.name;
  machine.memory_efficiency = 1;  // the bandwidth is measured below
  machine.error_band = 0;         // no run was compared with it
  if (calibration.base.empty()) machine.gpu = "CPU rank", machine.collective_share = 0.25;
  machine.measured.clear();
  calibration.say(std::to_string(ranks) + " ranks, " + std::to_string(local_ranks) + " per node, by " +
                  std::string(environment.transport()));
  measure_work(measurer, calibration, local_ranks, machine);
  measure_links(measurer, calibration, ranks, local_ranks, machine);
  return machine;
}
