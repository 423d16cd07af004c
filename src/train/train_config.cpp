#include "axonn/train/train_config.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/grid/context_ring.hpp"

namespace axonn {
namespace {

constexpr int64_t kLeastCopies = int64_t{1} << 20;  // with less, system calls take longer than the disk

}  // namespace

int64_t TrainConfig::rows(const GridShape& shape, int64_t context) const {
  check_context(shape, context);
  return micro_batch > 0 ? micro_batch : std::max<int64_t>(batch / row_groups(shape, context), 1);
}

LearningRate TrainConfig::learning_rate() const {
  return {.peak = optimizer.learning_rate,
          .end = learning_rate_end,
          .warmup = warmup,
          .steps = steps,
          .schedule = learning_rate_schedule,
          .decay = learning_rate_decay};
}

void check_train(const TrainConfig& config) {
  const auto at_least = [](auto value, auto least, const char* name) {
    AXONN_CHECK(value >= least, "train.config", name, " must be at least ", least, ", got ", value);
  };
  at_least(config.steps, 1, "steps");
  at_least(config.batch, 1, "batch");
  at_least(config.keep, 1, "keep");
  for (const auto& [value, name] : {std::pair(config.micro_batch, "micro_batch"),
                                    {config.warmup, "warmup"},
                                    {config.seed, "seed"},
                                    {config.validate_every, "validate_every"},
                                    {config.sample_every, "sample_every"},
                                    {config.save_every, "save_every"},
                                    {config.save_files, "save_files"},
                                    {config.check_replicas, "check_replicas"},
                                    {config.log_every, "log_every"}})
    at_least(value, 0, name);
  AXONN_CHECK(config.save_memory == 0 || config.save_memory >= kLeastCopies, "train.config",
              "save_memory must be 0 or at least ", kLeastCopies, " bytes, got ", config.save_memory);
  check_optimizer(config.optimizer);
  for (const auto& [value, name] :
       {std::pair(config.learning_rate_end, "learning_rate_end"), {config.clip, "clip"}, {config.minutes, "minutes"}})
    at_least(value, 0, name);
  AXONN_CHECK(config.learning_rate_decay > 0 && config.learning_rate_decay <= 1, "train.config",
              "learning_rate_decay must be in (0, 1], got ", config.learning_rate_decay);
  LossScale scale(config.loss_scale);
  SpikeGuard guard(config.spikes);
}

void check_cuda_graph(const TrainConfig& config, const GridShape& shape, const ContextOptions& options) {
  if (!config.cuda_graph) return;
  const auto check = [](bool right, const auto&... needs) {
    AXONN_CHECK(right, "train.config", "--cuda-graph needs ", needs..., ", or leave it out");
  };
  check(options.device.is_cuda(), "a GPU; choose --device cuda");
  check(shape.ranks() == 1, "a grid of one rank, because NCCL's calls are not recorded, got ", shape.to_string(),
        "; choose --grid 1x1x1x1");
  check(options.dtype == at::kFloat || options.dtype == at::kBFloat16, "fp32 or bf16, got ",
        c10::toString(options.dtype), "; choose --dtype bf16");
  check(config.optimizer.file.empty() && config.optimizer.kind == OptimizerKind::adamw,
        "an update without a wait for the norm; choose --optimizer adamw");
  check(config.spikes.action == OnSpike::off, "steps without a wait for the loss; choose --on-spike off");
}

OptimizerSettings TrainConfig::optimizer_settings(at::ScalarType dtype) const {
  OptimizerSettings settings = optimizer;
  settings.clips = clip > 0 || dtype == at::kHalf;
  return settings;
}

std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters, const TrainConfig& config) {
  return make_optimizer(context, parameters, config.optimizer_settings(context.options().dtype));
}

}  // namespace axonn
