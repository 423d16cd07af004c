#include "options/search_flags.hpp"

#include <axonn/core/error.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.options";

}  // namespace

void BatchFlags::bind(axonn::OptionTable& table) {
  constexpr int64_t kMostTokens = int64_t{1} << 50;
  table.add("job", "batch", samples, "sequences or images per step over the whole grid (UNet default: 2048)",
            {.least = 1, .most = kMostTokens});
  table.add("job", "batch_tokens", tokens, "tokens per step over the whole grid (transformer default: 4M = 4194304)",
            {.least = 1, .most = kMostTokens, .suffixes = axonn::Suffixes::binary});
}

int64_t BatchFlags::tokens_of(const axonn::NetworkModel& model) const {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (tokens != 0) {
    AXONN_CHECK(model.tokens != model.samples, kWhere, "a batch of ", model.name, " is counted in ", model.samples,
                ": --batch ", model.usual_batch);
    return tokens;
  }
  if (samples == 0) return model.usual_batch;
  AXONN_CHECK(samples <= kMost / model.tokens_per_sample, kWhere, "--batch must be at most ",
              kMost / model.tokens_per_sample, " ", model.samples, ", got ", samples);
  return samples * model.tokens_per_sample;
}

void RankingFlags::bind(axonn::OptionTable& table) {
  table.add(
      "job", "mode", mode,
      "bandwidths: exact (default; every placement), or the paper's agnostic, aware, measured (one order of axes)");
  table.add("job", "coefficients", coefficients,
            "collectives of a step: trainer (default of mode exact), paper (default of other modes), authors");
  table.add("job", "objective", objective,
            "time (default with coefficients trainer), communication (default otherwise), memory, cost");
  table.add("job", "order", order, "one order of axes, innermost first, such as zxyd, instead of every placement");
  table.add("job", "reduction", reduction,
            "ring: only flat rings; auto (default): level by level where that is faster");
  table.add("job", "memory_margin", memory_margin, "share of a GPU's memory to keep free (default: 0.08)");
  table.for_experts({"job.mode", "job.coefficients", "job.order", "job.reduction", "job.memory_margin"});
}

axonn::BandwidthMode RankingFlags::bandwidths() const {
  const bool papers_counts = coefficients && *coefficients != axonn::Coefficients::trainer;
  return mode.value_or(papers_counts ? axonn::BandwidthMode::aware : axonn::BandwidthMode::exact);
}

void RankingFlags::add_to(axonn::SearchOptions& options) const {
  using axonn::BandwidthMode, axonn::Coefficients, axonn::Objective;
  options.mode = bandwidths();
  const bool papers_mode = options.mode != BandwidthMode::exact;
  options.coefficients = coefficients.value_or(papers_mode ? Coefficients::paper : Coefficients::trainer);
  const bool published = options.coefficients != Coefficients::trainer;
  options.objective = objective.value_or(published ? Objective::communication : Objective::time);
  options.order = order;
  options.multi_level = reduction == ReductionChoice::automatic;
  options.memory_margin = memory_margin;
}

void TrainingFlags::bind(axonn::OptionTable& table) {
  table.add("training", "precision", precisions, "bf16 (default), fp16, fp32, fp64, or a list of them");
  table.add("training", "checkpoint", checkpointing, "activation checkpointing: auto (default), on, off");
  table.add("training", "attention_rows", attention_rows,
            "ranks that have the same heads divide attention's rows of queries: off (default), on, auto: the better");
  table.add("training", "norm_rows", norm_rows,
            "ranks along x divide the rows of norms and residual sums: off (default), on, auto: the better");
  table.add("training", "context", context,
            "ranks of z that divide each sequence (ring attention); 0: the best; default: 1",
            {.least = axonn::kAutomaticContext, .most = 1024});
  table.add("training", "micro_batch", micro_batch,
            "sequences or images per rank (with --context: per so many ranks) per forward pass; 0: the best (default)");
  table.add("training", "overlap", overlap, axonn::switches_help<axonn::OverlapSwitches>());
  table.add("training", "optimizer", optimizer, "adamw (default)");
  table.add("training", "optimizer_schedule", schedule,
            "ar-opt (default); rs-opt-ag and fuse divide the optimizer's state among replicas");
  table.for_experts(
      {"training.attention_rows", "training.norm_rows", "training.overlap", "training.optimizer_schedule"});
}

void TrainingFlags::add_to(axonn::SearchOptions& options) const {
  options.precisions = precisions;
  options.checkpointing = checkpointing;
  options.attention_rows = attention_rows;
  options.norm_rows = norm_rows;
  options.context.ranks = context;
  options.micro_batch = micro_batch;
  options.overlap = overlap;
  options.moments = axonn::optimizer_moments(optimizer);
  options.divided_update = axonn::divides(schedule);
}

bool TrainingFlags::recomputes_otherwise() const {
  using axonn::Checkpointing;
  return checkpointing == Checkpointing::selective || checkpointing == Checkpointing::stopped;
}

void TrainingFlags::refuse_other_recomputation() const {
  AXONN_CHECK(!recomputes_otherwise(), kWhere, "--checkpoint ", to_string(checkpointing),
              " is for the ranking and explain: give on, off or auto");
}

void GridFlags::bind(axonn::OptionTable& table) {
  table.add("grids", "fix", fixed, "only grids with these sizes of axes: x=4,data=2");
  table.add("grids", "min_tensor", min_tensor, "minimum of x * y * z", {.least = 1});
  table.add("grids", "max_tensor", max_tensor, "maximum of x * y * z", {.least = 1});
  table.for_experts({"grids.min_tensor", "grids.max_tensor"});
}

void GridFlags::add_to(axonn::SearchOptions& options) const {
  for (size_t i = 0; i < fixed.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      AXONN_CHECK(fixed[i].axis != fixed[j].axis, kWhere, "--fix has axis ", axonn::to_string(fixed[i].axis),
                  " twice: remove one");
  for (const auto& [axis, size] : fixed) options.fixed[axis] = size;
  options.min_tensor = min_tensor;
  if (max_tensor != 0) options.max_tensor = max_tensor;
}
