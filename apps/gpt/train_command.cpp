#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>

#include <ATen/ops/empty.h>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/train/checkpoint.hpp>
#include <axonn/train/text_data.hpp>
#include <axonn/train/together.hpp>

#include "commands.hpp"
#include "local_job.hpp"
#include "process_setup.hpp"
#include "resume.hpp"

namespace {

std::atomic<bool> interrupted = false;

// The first signal (Ctrl-C, what a batch system sends before the end) ends the run after this step, with a checkpoint; the second ends the
// process.
void on_interrupt(int signal) {
  if (interrupted.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

std::string new_run_name(axonn::Environment& environment) {
  const at::Tensor name = at::empty({1}, at::kLong);
  std::random_device device;
  name.fill_(static_cast<int64_t>(uint64_t{device()} << 31 ^ device()));
  environment.world().broadcast(name, 0).wait();
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(name.item<int64_t>()));
  return text;
}

axonn::TextData load_data(const GptOptions& options, const std::optional<axonn::CheckpointReader>& resumed) {
  AXONN_CHECK(!options.data.empty(), "gpt.train", "name the text to train on with --data PATH...");
  if (!resumed) return axonn::TextData::load(options.data, options.tokenizer, options.validation_fraction);
  auto data = axonn::TextData::load(options.data, axonn::Tokenizer::from_json(resumed->state().tokenizer), options.validation_fraction);
  AXONN_CHECK(resumed->state().data_fingerprint == data.fingerprint(), "gpt.train", "checkpoint ", resumed->directory().string(),
              " was trained on other data than --data names; going on would repeat or skip samples");
  return data;
}

// The last parts of the paths, for the first line.
std::string data_text(const GptOptions& options, const axonn::TextData& data) {
  std::string names;
  for (const auto& path : options.data) {
    const auto name = std::filesystem::path(path).filename().string();
    names += (names.empty() ? "" : " ") + (name.empty() ? path : name);
  }
  const auto tokens = static_cast<double>(data.train_tokens() + data.validation_tokens());
  return names + ": " + axonn::with_unit(tokens) + " tokens";
}

// A run that goes on multiplies as it did before, unless it goes on where that cannot be done (on a GPU).
axonn::GemmChoice products(axonn::Environment& environment, const GptOptions& options, const std::optional<axonn::CheckpointReader>& resumed) {
  const axonn::ContextOptions given = options.context();
  if (options.gemm != "auto") return given.gemm;
  if (resumed && axonn::gemm_available(axonn::GemmKernel::onednn, given.dtype, given.device))
    if (const auto& choices = resumed->state().choices; choices.contains("gemm")) return axonn::GemmChoice(choices.at("gemm"));
  return axonn::choose_gemm(environment.world(), given.dtype, given.device);
}

void report(const axonn::TrainResult& result, int64_t steps) {
  if (result.steps < steps) std::printf("stopped early: ");
  std::printf("step %lld, loss %.4f", static_cast<long long>(result.steps), result.loss);
  if (result.validation_loss) std::printf(", validation loss %.4f", *result.validation_loss);
  std::printf("; %s\n", result.checkpoint.empty() ? "no checkpoint" : ("checkpoint " + result.checkpoint).c_str());
}

}  // namespace

int run_train(axonn::Environment& environment, GptOptions& options, axonn::OptionTable& table) {
  std::optional<axonn::CheckpointReader> resumed;
  std::optional<axonn::TextData> data;
  axonn::succeed_together(environment.world(), [&] {
    if (!options.resume.empty()) {
      resumed.emplace(options.resume);
      take_over(options, table, *resumed);
    }
    check_ranks(options.shape(), environment.ranks());
    check_out(options, resumed);
    data = load_data(options, resumed);
    if (options.model.vocabulary == 0) options.model.vocabulary = data->tokenizer().vocabulary_size();
    options.check();
    options.check_memory(environment.local_ranks());
  });
  const int64_t first_step = resumed ? resumed->state().step : 0;
  if (first_step >= options.train.steps) {
    if (environment.rank() == 0)
      std::printf("nothing to do: %s has done %lld steps, --steps asks for %lld\n", resumed->directory().c_str(),
                  static_cast<long long>(first_step), static_cast<long long>(options.train.steps));
    return 0;
  }

  axonn::ContextOptions placed = options.context();
  placed.gemm = products(environment, options, resumed);
  axonn::Context context(environment, options.shape(), placed);
  configure_log(environment, context.at().to_string());
  axonn::Gpt model(context, options.model);
  const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.train.seed));
  const auto optimizer = axonn::make_optimizer(context, parameters, options.train);
  axonn::GptTask task(context, model, *data, static_cast<uint64_t>(options.train.seed), options.train.rows(context.shape()));

  axonn::RunIdentity identity{.title = "gpt " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
                              .data = data_text(options, *data),
                              .configuration = table.to_json(),
                              .tokenizer = data->tokenizer().to_json(),
                              .fingerprint = data->fingerprint(),
                              .choices = {{"gemm", placed.gemm.to_string()}}};
  if (resumed) {
    const auto tensors = axonn::checkpoint_tensors(parameters, optimizer.get());
    axonn::succeed_together(environment.world(), [&] { resumed->load(context.shape(), context.at(), tensors); });
    parameters.arena().round_master();
    identity.loss_scale = resumed->state().loss_scale;
    optimizer->set_steps_taken(first_step - (identity.loss_scale ? identity.loss_scale->skipped : 0));
    identity.run = resumed->state().run;
  } else {
    identity.run = new_run_name(environment);
  }

  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, on_interrupt);
  const auto result = axonn::train(environment, context, parameters, *optimizer, task, options.train, identity, first_step,
                                   [] { return interrupted.load(); });
  if (environment.rank() == 0) report(result, options.train.steps);
  return 0;
}
