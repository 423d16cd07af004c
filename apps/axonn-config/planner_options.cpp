#include "planner_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.options";

int64_t count_of(const std::string& text, const char* flag) {
  const int64_t value = axonn::parse_count(text, flag);
  AXONN_CHECK(value >= 1, kWhere, flag, " must be at least 1, got '", text, "'");
  return value;
}

// "x=4"
void fix_axis(const std::string& text, axonn::GridShape& fixed) {
  const auto equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto axis = std::ranges::find(axonn::kAxes, name, [](axonn::Axis a) { return std::string(axonn::to_string(a)); });
  int size = 0;
  const char* end = text.data() + text.size();
  const bool number = equals != std::string::npos && std::from_chars(text.data() + equals + 1, end, size).ptr == end && size >= 1;
  AXONN_CHECK(axis != axonn::kAxes.end() && number, kWhere, "--fix takes an axis and its size, such as x=4 or data=2, got '", text, "'");
  fixed[*axis] = size;
}

axonn::OverlapSwitches switches_of(const std::string& list) {
  if (list == "all") return {};
  axonn::OverlapSwitches on = {false, false, false, false, false};
  if (list == "none") return on;
  constexpr std::array<std::string_view, 5> kNames = {"all-reduce", "reduce-scatter", "all-gather", "cache", "buckets"};
  const std::array<bool*, 5> switches = {&on.all_reduce, &on.reduce_scatter, &on.all_gather, &on.cache, &on.buckets};
  for (const std::string& name : CLI::detail::split(list, ',')) {
    const auto found = std::ranges::find(kNames, name);
    AXONN_CHECK(found != kNames.end(), kWhere, "unknown overlap '", name, "'",
                axonn::did_you_mean(name, std::span<const std::string_view>(kNames)));
    *switches[static_cast<size_t>(found - kNames.begin())] = true;
  }
  return on;
}

axonn::OptimizerKind optimizer_of(const std::string& name) {
  if (name == "adamw") return axonn::OptimizerKind::adamw;
  if (name == "sgd") return axonn::OptimizerKind::sgd;
  AXONN_CHECK(name == "sgd-momentum", kWhere, "--optimizer is one of adamw, sgd, sgd-momentum, got '", name, "'");
  return axonn::OptimizerKind::sgd_momentum;
}

}  // namespace

void PlannerOptions::add_flags(CLI::App& app) {
  const auto list = [](CLI::Option* option) { option->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll); };
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  list(app.add_option("--gpus", gpus, "number of GPUs, or several: 64,128,256"));
  network.add_flags(app);
  app.add_option("--machine", machine, "perlmutter (default), frontier, alps, dgx-a100, dgx-h100, dgx-h200, workstation, or a .toml file");
  CLI::Option* samples = app.add_option("--batch", batch, "sequences or pictures of a step over the whole grid (UNets: 2048)");
  app.add_option("--batch-tokens", batch_tokens, "the same in tokens (transformers: 4M = 4194304)")->excludes(samples);
  app.add_option("--mode", mode,
                 "bandwidths: exact (default; every placement), agnostic, aware, measured (the paper's; one order of axes)");
  app.add_option("--coefficients", coefficients,
                 "collectives of a step: trainer (default), paper, authors (defaults of the other modes: paper)");
  app.add_option("--objective", objective,
                 "time, communication, memory or cost (default: time; communication where mode or coefficients are the paper's)");
  app.add_option("--order", order, "axes from the innermost, such as zxyd, instead of every placement");
  list(app.add_option("--fix", fixed, "only grids with this size of an axis: x=4, data=2")->group("grids"));
  app.add_option("--min-tensor", min_tensor, "least x * y * z")->group("grids");
  app.add_option("--max-tensor", max_tensor, "greatest x * y * z")->group("grids");
  list(app.add_option("--precision", precisions, "bf16 (default), fp16, fp32, fp64, or several")->group("training"));
  app.add_option("--checkpoint", checkpointing, "activation checkpointing: auto (default), on, off")->group("training");
  app.add_option("--micro-batch", micro_batch, "sequences of a rank in one forward; 0: the best")->group("training");
  app.add_option("--overlap", overlap, "all (default), none, or a list of all-reduce, reduce-scatter, all-gather, cache, buckets")
      ->group("training");
  app.add_option("--optimizer", optimizer, "adamw (default), sgd, sgd-momentum")->group("training");
  app.add_option("--reduction", reduction, "ring: flat rings alone; auto (default): level by level where that is faster");
  app.add_option("--memory-margin", memory_margin, "share of a GPU's memory that is left alone (default: 0.08)");
  app.add_option("--top", top, "layouts to print (default: 20)");
  app.add_flag("--verbose", verbose, "errors say where in the code they come from");
}

int64_t PlannerOptions::tokens_of_batch(const axonn::NetworkModel& model) const {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (!batch_tokens.empty()) {
    AXONN_CHECK(model.tokens != model.samples, kWhere, "a batch of ", model.name, " is counted in ", model.samples, ": --batch ",
                model.usual_batch);
    return count_of(batch_tokens, "--batch-tokens");
  }
  if (batch.empty()) return model.usual_batch;
  const int64_t samples = count_of(batch, "--batch");
  AXONN_CHECK(samples <= kMost / model.tokens_per_sample, kWhere, "--batch must be at most ", kMost / model.tokens_per_sample, " ",
              model.samples, ", got ", samples);
  return samples * model.tokens_per_sample;
}

axonn::SearchOptions PlannerOptions::search(const axonn::NetworkModel& model) const {
  using axonn::BandwidthMode, axonn::Coefficients, axonn::Objective;
  axonn::SearchOptions options;
  for (const std::string& count : gpus) options.gpus.push_back(count_of(count, "--gpus"));
  options.batch_tokens = tokens_of_batch(model);
  const bool papers_counts = !coefficients.empty() && axonn::parse_coefficients(coefficients) != Coefficients::trainer;
  options.mode = !mode.empty() ? axonn::parse_bandwidth_mode(mode) : papers_counts ? BandwidthMode::aware : BandwidthMode::exact;
  const bool papers_mode = options.mode != BandwidthMode::exact;
  if (!coefficients.empty())
    options.coefficients = axonn::parse_coefficients(coefficients);
  else
    options.coefficients = papers_mode ? Coefficients::paper : Coefficients::trainer;
  const bool published = options.coefficients != Coefficients::trainer;
  options.objective = !objective.empty() ? axonn::parse_objective(objective) : published ? Objective::communication : Objective::time;
  if (!order.empty()) options.order = axonn::parse_axis_order(order);
  for (const std::string& text : fixed) fix_axis(text, options.fixed);
  options.min_tensor = min_tensor;
  if (max_tensor != 0) options.max_tensor = max_tensor;
  options.precisions.clear();
  for (const std::string& name : precisions) options.precisions.push_back(axonn::parse_precision(name));
  options.checkpointing = axonn::parse_checkpointing(checkpointing);
  options.micro_batch = micro_batch;
  AXONN_CHECK(reduction == "auto" || reduction == "ring", kWhere, "--reduction is auto or ring, got '", reduction, "'");
  options.multi_level = reduction == "auto";
  options.overlap = switches_of(overlap);
  options.optimizer = optimizer_of(optimizer);
  options.memory_margin = memory_margin;
  options.top = top;
  return options;
}

std::string PlannerOptions::repeated() const {
  std::string flags = network.repeated();
  const auto add = [&](const char* flag, const std::string& value, const std::string& fallback) {
    if (value != fallback) flags += std::string(" ") + flag + " " + value;
  };
  const auto number = [&](const char* flag, int64_t value, int64_t fallback) {
    add(flag, std::to_string(value), std::to_string(fallback));
  };
  add("--machine", machine, "perlmutter");
  add("--batch", batch, "");
  add("--batch-tokens", batch_tokens, "");
  add("--mode", mode, "");
  add("--coefficients", coefficients, "");
  add("--objective", objective, "");
  add("--order", order, "");
  add("--precision", CLI::detail::join(precisions, ","), "bf16");
  add("--checkpoint", checkpointing, "auto");
  number("--micro-batch", micro_batch, 0);
  add("--reduction", reduction, "auto");
  add("--overlap", overlap, "all");
  add("--optimizer", optimizer, "adamw");
  if (memory_margin != 0.08) flags += " --memory-margin " + axonn::detail::concatenate(memory_margin);
  return flags;
}
