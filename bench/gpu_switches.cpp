// Switches of the kernels on a GPU, all in one process: a start costs more than the steps.
//   gpu_switches losses gpt|unet   the losses of some steps, per type and choice of kernels
//   gpu_switches time gpt|unet     a step without, with and without each switch, on one network
// Each line of standard output is JSON. On the CPU, `losses` makes what a GPU is compared with.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <CLI/CLI.hpp>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "axonn/axonn.hpp"
#include "axonn/config/command_line.hpp"
#include "axonn/core/median.hpp"
#include "axonn/perfmodel/network_options.hpp"
#include "axonn/program/run_options.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/report/gemm_peak.hpp"
#include "gpu_switches_networks.hpp"

namespace {

using namespace axonn;
using Json = nlohmann::ordered_json;

// A choice of LibTorch's, of the whole process.
struct LibTorchSwitch {
  const char* name;
  void (*set)(bool on);
};
constexpr LibTorchSwitch kLibTorchSwitches[] = {
    {"cublaslt",
     [](bool on) {
       at::globalContext().setBlasPreferredBackend(on ? at::BlasBackend::Cublaslt : at::BlasBackend::Cublas);
     }},
    {"flash", [](bool on) { at::globalContext().setSDPUseCuDNN(!on); }},
    {"cudnn-benchmark", [](bool on) { at::globalContext().setBenchmarkCuDNN(on); }},
};

struct Options {
  std::string network;
  DecoderConfig gpt = {};
  UnetConfig unet = {};
  std::vector<std::string> dtypes = {"bf16"};
  std::vector<std::string> kernels = {"none", "all"};
  std::vector<std::string> only;  // empty: every switch of the network
  std::string device = "cuda";
  int64_t batch = 8;
  int steps = 8;
  int warmup = 2;
};

// One network on one rank, and its steps.
class Steps {
 public:
  Steps(Environment& environment, const Options& options, at::ScalarType dtype, const KernelChoice& kernels)
      : context_(environment, {}, {.dtype = dtype, .device = c10::Device(options.device), .kernels = kernels}),
        network_(options.network == "gpt" ? bench::make_switched_gpt(context_, options.gpt)
                                          : bench::make_switched_unet(context_, options.unet)),
        parameters_(context_.materialize(*network_.model, /*seed=*/1)),
        optimizer_(make_optimizer(context_, parameters_, {.learning_rate = 1e-4})),
        plan_(plan_batch(options.batch, options.batch, context_.shape(), context_.at())) {}

  Context& context() { return context_; }
  const TrainTask& task() const { return *network_.task; }
  c10::Device device() const { return context_.options().device; }

  // The next step. Its loss stays on the device. If it can, the host does not wait.
  at::Tensor take() {
    const PassLosses losses = run_passes(context_, *network_.task, plan_, taken_++);
    UpdateOptions update{.max_norm = 1.0};
    if (device().is_cuda() && optimizer_->runs_ahead()) update.loss = losses.means.sum();
    optimizer_->step(update);
    network_.task->after_step();
    return losses.means.to(at::kDouble).sum();
  }

 private:
  Context context_;
  bench::SwitchedNetwork network_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  BatchPlan plan_;
  int64_t taken_ = 0;
};

// Seconds of each of `count` steps, from the end of one to the end of the next, on the device.
std::vector<double> seconds_of_steps(Steps& steps, int count) {
  std::vector<double> seconds;
  if (steps.device().is_cpu()) {
    for (int i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      (void)steps.take();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }
  const auto stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(steps.device());
  std::vector<c10::Event> ends;
  for (int i = 0; i <= count; ++i) {
    if (i > 0) (void)steps.take();
    ends.emplace_back(c10::kCUDA, c10::EventFlag::BACKEND_DEFAULT).record(stream);
  }
  ends.back().synchronize();
  for (int i = 0; i < count; ++i)
    seconds.push_back(ends[static_cast<size_t>(i)].elapsedTime(ends[static_cast<size_t>(i) + 1]) / 1e3);
  return seconds;
}

// The most that tensors held since the last call, in GB; 0 on a CPU.
double peak_gigabytes(c10::Device device) {
  if (device.is_cpu()) return 0;
  auto* const allocator = c10::getDeviceAllocator(c10::kCUDA);
  const auto stats = allocator->getDeviceStats(device.index());
  allocator->resetPeakStats(device.index());
  return static_cast<double>(stats.allocated_bytes[0].peak) / 1e9;
}

struct Measured {
  double milliseconds = 0, gigabytes = 0;
};

Measured measure(Steps& steps, const Options& options) {
  (void)seconds_of_steps(steps, options.warmup);
  (void)peak_gigabytes(steps.device());
  const double milliseconds = 1e3 * median(seconds_of_steps(steps, options.steps));
  return {milliseconds, peak_gigabytes(steps.device())};
}

// Named as in --only: of LibTorch, or of our own kernels, which are off but for it.
std::function<void(Steps&, bool on)> switch_of(const std::string& name) {
  for (const LibTorchSwitch& each : kLibTorchSwitches)
    if (name == each.name) return [&each](Steps&, bool on) { each.set(on); };
  return [kernels = parse_switches<KernelChoice>(name)](Steps& steps, bool on) {
    steps.context().set_kernels(on ? kernels : KernelChoice());
  };
}

at::ScalarType type_of(const std::string& name) {
  const auto precision = parse_name<Precision>(name, "--dtype");
  if (precision == Precision::fp16)
    throw UserError("gpu_switches",
                    "--dtype fp16 needs a loss scale, which these steps do not have; take bf16 or fp32");
  return scalar_type(precision);
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

void print(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

std::vector<std::string> switches_of_network(const std::string& network) {
  if (network == "gpt") return {"cross-entropy", "embedding", "layer-norm", "adamw", "epilogues", "cublaslt", "flash"};
  return {"group-norm", "adamw", "tail", "device-noise", "epilogues", "cudnn-benchmark"};
}

int time_switches(const Options& options) {
  Environment environment;
  const at::ScalarType dtype = type_of(options.dtypes.at(0));
  const auto names = options.only.empty() ? switches_of_network(options.network) : options.only;
  std::vector<std::function<void(Steps&, bool)>> switches;
  for (const std::string& name : names) switches.push_back(switch_of(name));
  Steps steps(environment, options, dtype, {});
  const double peak = measure_gemm_flops(dtype, steps.device());
  const auto samples = static_cast<double>(options.batch);
  const double terms = samples * static_cast<double>(steps.task().tokens_per_sample()),
               flops = samples * steps.task().flops_per_sample();
  for (size_t i = 0; i < names.size(); ++i) {
    const Measured before = measure(steps, options);
    switches[i](steps, true);
    const Measured on = measure(steps, options);
    switches[i](steps, false);
    const Measured after = measure(steps, options);
    const double off = (before.milliseconds + after.milliseconds) / 2;
    print({{"switch", names[i]},
           {"off_ms", rounded(off)},
           {"on_ms", rounded(on.milliseconds)},
           {"ratio", rounded(off / on.milliseconds)},
           {"off_GB", rounded(std::max(before.gigabytes, after.gigabytes))},
           {"on_GB", rounded(on.gigabytes)},
           {"per_second", std::round(terms / on.milliseconds * 1e3)},
           {"product_tflops", rounded(peak / 1e12)},
           {"share", rounded(flops / on.milliseconds * 1e3 / peak)}});
  }
  return 0;
}

int print_losses(const Options& options) {
  Environment environment;
  for (const std::string& dtype : options.dtypes)
    for (const std::string& kernels : options.kernels) {
      Steps steps(environment, options, type_of(dtype), parse_switches<KernelChoice>(kernels));
      std::vector<at::Tensor> on_device;
      for (int i = 0; i < options.steps; ++i) on_device.push_back(steps.take());
      std::vector<double> losses;
      for (const at::Tensor& loss : on_device) losses.push_back(loss.item<double>());
      print({{"network", options.network}, {"dtype", dtype}, {"kernels", kernels}, {"losses", losses}});
    }
  return 0;
}

void add_common(CLI::App& command, Options& options) {
  command.add_option("--batch", options.batch, "samples per step")->check(CLI::PositiveNumber);
  command.add_option("--steps", options.steps, "steps that count")->check(CLI::PositiveNumber);
  command.add_option("--device", options.device, "device of the tensors")->check(CLI::IsMember({"cuda", "cpu"}));
}

// The commands of one network. `table` has the flags of its sizes.
std::vector<Subcommand> add_commands(CLI::App& losses, CLI::App& time, const std::string& network, OptionTable& table,
                                     Options& options) {
  CLI::App* const of_losses = losses.add_subcommand(network, "losses of " + network);
  CLI::App* const of_time = time.add_subcommand(network, "seconds of " + network);
  for (CLI::App* const command : {of_losses, of_time}) {
    table.add_flags(*command);
    add_common(*command, options);
  }
  of_losses->add_option("--dtype", options.dtypes, "types, each with a new network")->delimiter(',');
  of_losses->add_option("--kernels", options.kernels, "choices of --kernels, each with a new network");
  of_time->add_option("--dtype", options.dtypes, "type")->expected(1);
  of_time->add_option("--warmup", options.warmup, "steps after each change that do not count")
      ->check(CLI::NonNegativeNumber);
  of_time->add_option("--only", options.only,
                      "these switches: names or all of --kernels, cublaslt, flash, "
                      "cudnn-benchmark");
  return {{of_losses, [&options, network] { return options.network = network, print_losses(options); }},
          {of_time, [&options, network] { return options.network = network, time_switches(options); }}};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    OptionTable gpt(OptionTable::Use::flags), unet(OptionTable::Use::flags);
    bind_sizes(gpt, "model", options.gpt.shape, SizesFor::trainer);
    bind_sizes(unet, "model", options.unet.shape, SizesFor::trainer);
    CLI::App app("Losses and speed of the kernels' switches on a GPU, in one process");
    CLI::App* const losses = app.add_subcommand("losses", "losses of some steps, per type and choice of kernels");
    CLI::App* const time = app.add_subcommand("time", "a step without, with and without each switch");
    for (CLI::App* const each : {&app, losses, time}) each->require_subcommand(1);
    std::vector<Subcommand> commands = add_commands(*losses, *time, "gpt", gpt, options);
    for (Subcommand& more : add_commands(*losses, *time, "unet", unet, options)) commands.push_back(std::move(more));
    const std::vector<const char*> arguments(argv, argv + argc);
    return run_subcommand(app, arguments, commands);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_switches: %s\n", error.what());
    return 1;
  }
}
