#include "axonn/program/training_run.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <random>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/standard_streams.hpp"
#include "axonn/kernels/cpu/gemm.hpp"
#include "axonn/kernels/cpu/convolution_kernels.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/program/resume.hpp"
#include "axonn/train/attention_balance.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
#include "core/stop_signals.hpp"
#include "kernels/cpu/parallel.hpp"
#include "program/process_setup.hpp"

namespace axonn {
namespace {

// In CheckpointState::choices.
constexpr const char *kGemmChoice = "gemm", *kConvolutionChoice = "convolutions", *kAttentionChoice = "attention",
                     *kUpdateChoice = "optimizer schedule";

// A balance is one of a grid and its order, so another grid measures it again.
std::string balance_choice(const GridShape& shape, const AxisOrder& order) {
  return "attention balance of " + shape.to_string() + " by " + to_string(order);
}

std::atomic<bool> interrupted = false, tells_of_it = false;

// The first signal (Ctrl-C, a batch system's warning, the end of a terminal) ends the run after
// this step, with a checkpoint. The second one ends the process; but the end of a terminal may come
// twice, from the shell and from the kernel.
void on_interrupt(int signal) {
  if (!interrupted.exchange(true)) {
    constexpr std::string_view kWords =
        "a signal came: the run ends after this step, with a checkpoint; a second one ends it at once\n";
    const int before = errno;
    if (tells_of_it) (void)!::write(STDERR_FILENO, kWords.data(), kWords.size());
    errno = before;
  } else if (signal != SIGHUP) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

// On a stack of its own, and on this thread: src/core/stop_signals.hpp says why.
void install_handlers() {
  const auto main = std::this_thread::get_id();
  parallel_for(0, at::get_num_threads(), 1, [main](int64_t, int64_t) {
    if (std::this_thread::get_id() != main) leave_stop_signals_to_main();
  });
  struct sigaction ours{};
  ours.sa_handler = on_interrupt;
  ours.sa_flags = SA_ONSTACK | SA_RESTART;
  for (const int signal : kStopSignals) {
    struct sigaction before{};
    const bool ignored = sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (signal != SIGHUP || !ignored) sigaction(signal, &ours, nullptr);  // ignored: nohup
  }
}

std::string new_name(Environment& environment) {
  const at::Tensor name = at::empty({1}, at::kLong);
  std::random_device device;
  name.fill_(static_cast<int64_t>(uint64_t{device()} << 31 ^ device()));
  environment.world().broadcast(name, 0).wait();
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(name.item<int64_t>()));
  return text;
}

void load(Context& context, std::span<const CheckpointTensor> tensors, const CheckpointReader& reader) {
  reader.load([&](AxisSet axes) -> Communicator& { return context.communicators().on_cpu(axes); }, context.shape(),
              context.at(), tensors);
}

// On rank 0, to which the standard output belongs.
void report(const TrainResult& result, int64_t steps) {
  const std::string checkpoint = result.checkpoint.empty() ? "no checkpoint" : "checkpoint " + result.checkpoint;
  AXONN_CHECK(!output_failed() || result.steps == steps, "program.run",
              "the standard output cannot be written, so the run has ended after step ", result.steps, ", with ",
              checkpoint, "; resume it with its output in a place that can be written, or in /dev/null");
  if (result.steps < steps) std::printf("stopped early: ");
  std::printf("step %lld, loss %.4f", static_cast<long long>(result.steps), result.loss);
  if (result.validation_loss) std::printf(", validation loss %.4f", *result.validation_loss);
  if (result.bits_per_byte) std::printf(" (%.4f bits per byte)", *result.bits_per_byte);
  std::printf("; %s\n", checkpoint.c_str());
}

std::optional<std::string> stored_choice(const std::optional<CheckpointReader>& resumed, const std::string& name) {
  if (!resumed || !resumed->state().choices.contains(name)) return {};
  return resumed->state().choices.at(name);
}

}  // namespace

ContextOptions choose_context(Environment& environment, const RunPlan& plan,
                              std::span<const ConvolutionShape> convolutions,
                              const std::optional<CheckpointReader>& resumed) {
  ContextOptions result = plan.context;
  if (plan.gemm) {
    result.gemm = GemmChoice(*plan.gemm);
    return result;
  }
  const auto stored = [&](const std::string& name) { return stored_choice(resumed, name); };
  const auto gemm = stored(kGemmChoice);
  result.gemm = gemm && gemm_available(GemmKernel::onednn, result.dtype, result.device)
                    ? GemmChoice(*gemm)
                    : choose_gemm(environment.world(), result.dtype, result.device);
  const auto attention = stored(kAttentionChoice);
  result.attention = attention ? parse_name<AttentionProducts>(*attention, "a type of attention's products")
                               : choose_attention_products(environment.world(), result.dtype, result.device);
  const auto balance = result.device.is_cpu() ? stored(balance_choice(plan.grid, result.order)) : std::nullopt;
  result.attention_balance =
      balance ? parse_attention_balance(*balance) : measure_attention_balance(environment, plan.grid, result);
  ConvolutionChoice known;
  if (const auto before = stored(kConvolutionChoice)) known = ConvolutionChoice(*before);
  if (!known.available(result.dtype, result.device)) known = {};
  const int64_t images = plan.rows() / result.forward.split;
  result.convolutions =
      choose_convolutions(environment.world(), convolutions, images, result.dtype, result.device, std::move(known));
  return result;
}

bool nothing_to_do(const Environment& environment, const RunPlan& plan,
                   const std::optional<CheckpointReader>& resumed) {
  if (!resumed || resumed->state().step < plan.train.steps) return false;
  if (environment.rank() == 0)
    std::printf("nothing to do: %s has done %lld steps, --steps asks for %lld\n", resumed->directory().c_str(),
                static_cast<long long>(resumed->state().step), static_cast<long long>(plan.train.steps));
  return true;
}

void load_weights(Context& context, const Parameters& parameters, const CheckpointReader& reader) {
  load(context, weights_to_use(parameters, reader), reader);
  for (const Parameters* some = &parameters; some != nullptr; some = some->frozen()) some->arena().round_master();
}

void run_training(Environment& environment, Context& context, const Parameters& parameters, TrainTask& task,
                  const RunPlan& plan, RunIdentity identity, const std::optional<CheckpointReader>& resumed) {
  configure_log(environment, context.at().to_string());
  if (!plan.train.out.empty()) environment.set_flight_directory(std::filesystem::path(plan.train.out) / "flight");
  const UpdateChoice update = choose_update(context, parameters, plan.train.optimizer_settings(context.options().dtype),
                                            {.known = stored_choice(resumed, kUpdateChoice),
                                             .folder = plan.choices,
                                             .local_ranks = environment.local_ranks()});
  TrainConfig config = plan.train;
  config.optimizer.schedule = update.schedule;
  config.optimizer.run = update.run;
  const auto optimizer = make_optimizer(context, parameters, config);
  int64_t first_step = 0;
  identity.start = new_name(environment);
  identity.choices[kGemmChoice] = context.options().gemm.to_string();
  identity.choices[kAttentionChoice] = to_string(context.options().attention);
  identity.choices[kUpdateChoice] = update.to_string();
  if (const AttentionBalance& balance = context.options().attention_balance; balance.measured())
    identity.choices[balance_choice(context.shape(), context.options().order)] = balance.to_string();
  identity.choices[kConvolutionChoice] = context.options().convolutions.to_string();
  if (resumed) {
    const CheckpointState& state = resumed->state();
    load(context, checkpoint_tensors(parameters, optimizer.get(), &task), *resumed);
    optimizer->state_changed();
    if (parameters.frozen() != nullptr) parameters.frozen()->arena().round_master();
    first_step = state.step;
    identity.checkpoint = resumed->directory().string();
    identity.loss_scale = state.loss_scale;
    identity.spikes = state.spikes;
    optimizer->set_steps_taken(state.updates());
    const bool lead = environment.rank() == 0;
    identity.from =
        broadcast_text(environment.world(), lead ? name_for_starts(*resumed, plan.train.out) : std::string(), 0);
    const bool own = std::filesystem::path(identity.from).is_relative();
    identity.run = own ? state.run : identity.start;
  } else {
    identity.run = identity.start;
  }
  tells_of_it = environment.rank() == 0;
  install_handlers();
  std::signal(SIGXFSZ, SIG_IGN);  // a checkpoint over the limit of `ulimit -f` is an error of write() instead
  const auto result = train({environment, context, parameters, *optimizer, task}, config, identity, first_step,
                            [] { return interrupted.load() || output_failed(); });
  all_ranks_or_none(environment.world(), [&] {
    if (environment.rank() == 0) report(result, plan.train.steps);
  });
}

}  // namespace axonn
