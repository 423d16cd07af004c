#include "planner_options.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>

#include <axonn/config/codecs.hpp>
#include <axonn/config/command_line.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/network/networks.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.options";

int64_t moment_bytes_of(std::string_view type) {
  if (type == "bf16") return 2;
  if (type == "int8") return 1;
  throw axonn::UserError(kWhere, "--what-if moments takes bf16 or int8, got '" + std::string(type) + "'");
}

}  // namespace

namespace axonn {

template <>
struct Codec<GpuCounts> {
  static constexpr int64_t kMost = kMostGpus;
  static int64_t count(std::string_view text, std::string_view what) {
    const int64_t count = parse_count(text, what, Suffixes::decimal);
    AXONN_CHECK(count >= 1 && count <= kMost, kWhere, what, " must be from 1 to ", kMost, ", got ", count);
    return count;
  }
  static GpuCounts parse(std::string_view text, std::string_view what) {
    const auto dots = text.find("..");
    if (dots == std::string_view::npos) return {{count(text, what)}};
    const int64_t first = count(text.substr(0, dots), what), last = count(text.substr(dots + 2), what);
    AXONN_CHECK(first < last, kWhere, what, " takes a range that ascends, such as 8..4096, got '", text, "'");
    GpuCounts range;
    for (int64_t one = first; one <= last; one *= 2) range.counts.push_back(one);
    return range;
  }
  static std::string print(const GpuCounts& range) {
    const std::string first = std::to_string(range.counts.front());
    return range.counts.size() == 1 ? first : first + ".." + std::to_string(range.counts.back());
  }
  static std::string type() { return "N|N..M"; }
};

template <>
struct Names<Launcher> {
  static constexpr Named<Launcher> all[] = {{"srun", Launcher::srun}, {"mpirun", Launcher::mpirun}};
};

template <>
struct Names<ReductionChoice> {
  static constexpr Named<ReductionChoice> all[] = {{"auto", ReductionChoice::automatic},
                                                   {"ring", ReductionChoice::ring}};
};

template <>
struct Codec<FixedAxis> {
  static FixedAxis parse(std::string_view text, std::string_view what) {
    const auto equals = text.find('=');
    const auto axis = std::ranges::find(kAxes, text.substr(0, equals), [](Axis a) { return to_string(a); });
    int size = 0;
    const char* end = text.data() + text.size();
    const bool number = equals != std::string_view::npos &&
                        std::from_chars(text.data() + equals + 1, end, size).ptr == end && size >= 1;
    AXONN_CHECK(axis != kAxes.end() && number, kWhere, what,
                " takes an axis and its size, such as x=4 or data=2, got '", text, "'");
    return {*axis, size};
  }
  static std::string print(const FixedAxis& fixed) {
    return std::string(to_string(fixed.axis)) + "=" + std::to_string(fixed.size);
  }
  static std::string type() { return "AXIS=SIZE"; }
};

}  // namespace axonn

namespace {

// Sections of options, including the sections of every network's sizes.
std::vector<std::string_view> with_networks(std::vector<std::string_view> before,
                                            std::initializer_list<std::string_view> after) {
  std::ranges::copy(axonn::network_kinds(), std::back_inserter(before));
  before.insert(before.end(), after);
  return before;
}

}  // namespace

PlannerOptions::PlannerOptions() {
  using axonn::Suffixes;
  constexpr int64_t kMostTokens = int64_t{1} << 50;
  table_.add("search", "gpus", gpus,
             "number of GPUs; of a list or a range (8..4096: 8, 16, 32, ...) only the best layout of each count");
  table_.add(
      "job", "machine", machine,
      "perlmutter (default), frontier, alps, dgx-a100, dgx-a100-40, dgx-h100, dgx-h200, workstation, or a .toml file");
  table_.add("job", "batch", batch, "sequences or images per step over the whole grid (UNet default: 2048)",
             {.least = 1, .most = kMostTokens});
  table_.add("job", "batch_tokens", batch_tokens,
             "tokens per step over the whole grid (transformer default: 4M = 4194304)",
             {.least = 1, .most = kMostTokens, .suffixes = Suffixes::binary});
  table_.add(
      "job", "mode", mode,
      "bandwidths: exact (default; every placement), or the paper's agnostic, aware, measured (one order of axes)");
  table_.add("job", "coefficients", coefficients,
             "collectives of a step: trainer (default of mode exact), paper (default of other modes), authors");
  table_.add("job", "objective", objective,
             "time (default with coefficients trainer), communication (default otherwise), memory, cost");
  table_.add("job", "order", order, "one order of axes, innermost first, such as zxyd, instead of every placement");
  table_.add("job", "reduction", reduction,
             "ring: only flat rings; auto (default): level by level where that is faster");
  table_.add("job", "memory_margin", memory_margin, "share of a GPU's memory to keep free (default: 0.08)");
  table_.add("training", "precision", precisions, "bf16 (default), fp16, fp32, fp64, or a list of them");
  table_.add("training", "checkpoint", checkpointing, "activation checkpointing: auto (default), on, off");
  table_.add("training", "micro_batch", micro_batch,
             "sequences or images per rank per forward pass; 0: the best (default)");
  table_.add("training", "overlap", overlap, axonn::switches_help<axonn::OverlapSwitches>());
  table_.add("training", "optimizer", optimizer, "adamw (default)");
  table_.add("training", "optimizer_schedule", schedule,
             "ar-opt (default); rs-opt-ag and fuse divide the optimizer's state among replicas");
  table_.add(
      "training", "what_if", what_ifs,
      "what other programs do: pipeline=8, chunks=2, context=8, gather-keys, sequence-norms, zero2, moments=bf16, "
      "logits-chunks=8, block-messages, or a list of them");
  table_.add("grids", "fix", fixed, "only grids with these sizes of axes: x=4,data=2");
  table_.add("grids", "min_tensor", min_tensor, "minimum of x * y * z", {.least = 1});
  table_.add("grids", "max_tensor", max_tensor, "maximum of x * y * z", {.least = 1});
  table_.add("search", "top", top, "number of layouts to print (default: 20)");
  table_.add("search", "knee", knee,
             "of several counts, the largest with this share of the first one's speed per GPU is named (default: 0.8)");
  table_.add("launch", "launcher", launcher, "program that starts the ranks: srun (default) or mpirun");
  table_.for_experts({"job.mode", "job.coefficients", "job.order", "job.reduction", "job.memory_margin",
                      "training.overlap", "training.optimizer_schedule", "training.what_if", "grids.min_tensor",
                      "grids.max_tensor", "search.knee"});
}

void PlannerOptions::add_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job", "network"}, {"training"}));
  app.get_option("--batch-tokens")->excludes(app.get_option("--batch"));
  app.add_flag("--verbose", verbose, "errors name their place in the code");
}

void PlannerOptions::add_search_flags(CLI::App& app) {
  add_flags(app);
  table_.add_flags(app, {"search", "grids"});
  app.add_flag("--json", json, "print JSON");
  const std::string for_experts = axonn::expert_group("Options");
  app.add_flag("--csv", csv, "print CSV, one line per layout or count of GPUs")
      ->excludes(app.get_option("--json"))
      ->group(for_experts);
  app.add_flag("--sensitivity", sensitivity, "how often the best stays the best if the machine's constants change")
      ->excludes(app.get_option("--csv"))
      ->group(for_experts);
  app.add_option("--plot", plot, "SVG file to write: the parts of the layouts' steps, or the speed of every count");
  app.add_option("--measurements", measurements,
                 "file for --plot: lines with a grid and its seconds, such as 4x1x16x16,9.87")
      ->needs(app.get_option("--plot"))
      ->group(for_experts);
}

void PlannerOptions::add_fit_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job.machine", "network"}, {}));
  app.add_flag("--json", json, "print JSON");
  app.add_flag("--verbose", verbose, "every run; errors name their place in the code");
}

void PlannerOptions::add_import_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job.machine", "job.memory_margin", "network"}, {}));
  app.add_flag("--verbose", verbose, "errors name their place in the code");
}

void PlannerOptions::add_explain_flags(CLI::App& app) {
  app.add_flag("--json", json, "print JSON");
  app.add_option("--against", against, "another grid: what it gains and loses, part by part");
}

void PlannerOptions::add_launch_flags(CLI::App& app) { table_.add_flags(app, {"launch"}); }

int64_t PlannerOptions::tokens_of_batch(const axonn::NetworkModel& model) const {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (batch_tokens != 0) {
    AXONN_CHECK(model.tokens != model.samples, kWhere, "a batch of ", model.name, " is counted in ", model.samples,
                ": --batch ", model.usual_batch);
    return batch_tokens;
  }
  if (batch == 0) return model.usual_batch;
  AXONN_CHECK(batch <= kMost / model.tokens_per_sample, kWhere, "--batch must be at most ",
              kMost / model.tokens_per_sample, " ", model.samples, ", got ", batch);
  return batch * model.tokens_per_sample;
}

WhatIf PlannerOptions::what_if() const {
  WhatIf found;
  std::istringstream words(what_ifs);
  for (std::string word; std::getline(words, word, ',');) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    const auto count = [&] {
      const int64_t number = axonn::parse_count(value, "--what-if " + name, axonn::Suffixes::decimal);
      AXONN_CHECK(number >= 1 && number <= 1024, kWhere, "--what-if ", name, " must be from 1 to 1024, got ", number);
      return number;
    };
    if (name == "pipeline")
      found.stages = count();
    else if (name == "chunks")
      found.virtual_stages = count();
    else if (name == "context")
      found.context.ranks = count();
    else if (name == "logits-chunks")
      found.logits_chunks = count();
    else if (name == "moments")
      found.moment_bytes = moment_bytes_of(value);
    else if (word == "gather-keys")
      found.context.gathers = true;
    else if (word == "sequence-norms")
      found.sequence_norms = true;
    else if (word == "zero2")
      found.divided_gradients = true;
    else if (word == "block-messages")
      found.block_messages = true;
    else
      throw axonn::UserError(kWhere,
                             "--what-if takes pipeline=8, chunks=2, context=8, gather-keys, sequence-norms, zero2, "
                             "moments=bf16, logits-chunks=8 and block-messages, got '" +
                                 word + "'");
  }
  AXONN_CHECK(found.virtual_stages == 1 || found.stages > 1, kWhere,
              "--what-if chunks is for a pipeline: give pipeline=8 too");
  AXONN_CHECK(!found.context.gathers || found.context.ranks > 1, kWhere,
              "--what-if gather-keys is for a divided context: give context=8 too");
  AXONN_CHECK(found.moment_bytes == 0 || axonn::optimizer_moments(optimizer) > 0, kWhere,
              "--what-if moments: ", to_string(optimizer), " has none: remove it");
  return found;
}

void PlannerOptions::refuse_what_if() const {
  AXONN_CHECK(!what_if().any(), kWhere, "--what-if is for the ranking and explain: remove it");
  refuse_other_recomputation();
}

bool PlannerOptions::can_be_launched(const axonn::NetworkModel& model) const {
  return !what_if().any() && !recomputes_otherwise() && !model.program.empty();
}

void PlannerOptions::refuse_beyond_export() const {
  AXONN_CHECK(!what_if().beyond_export(), kWhere,
              "export takes of --what-if only context and gather-keys, and block-messages");
  refuse_other_recomputation();
}

bool PlannerOptions::recomputes_otherwise() const {
  using axonn::Checkpointing;
  return checkpointing == Checkpointing::selective || checkpointing == Checkpointing::stopped;
}

void PlannerOptions::refuse_other_recomputation() const {
  AXONN_CHECK(!recomputes_otherwise(), kWhere, "--checkpoint ", to_string(checkpointing),
              " is for the ranking and explain: give on, off or auto");
}

axonn::NetworkModel PlannerOptions::planned_network() const {
  const WhatIf what = what_if();
  if (what.stages == 1 && !what.sequence_norms && what.context.ranks == 1 && what.logits_chunks == 1)
    return network.network();
  axonn::NetworkShape shape = network.shape();
  std::visit(
      [&]<typename Shape>(Shape& sizes) {
        if constexpr (requires { sizes.layers; }) {
          const int64_t chunks = what.stages * what.virtual_stages;
          AXONN_CHECK(sizes.layers % chunks == 0, kWhere, "--what-if: ", chunks,
                      " stages and chunks must divide the layers, got ", sizes.layers);
          sizes.layers /= what.stages;
          // Both halves of a causal sequence are divided, so that all ranks have as many scores.
          AXONN_CHECK(what.context.ranks == 1 || sizes.sequence % (2 * what.context.ranks) == 0, kWhere,
                      "--what-if context=", what.context.ranks, " needs a --sequence that divides by ",
                      2 * what.context.ranks, ", got ", sizes.sequence);
        } else {
          throw axonn::UserError(kWhere,
                                 "--what-if pipeline, context, sequence-norms and logits-chunks are for transformers: "
                                 "remove them");
        }
      },
      shape);
  return network_model(network.network().name, shape);
}

std::vector<int64_t> PlannerOptions::counts() const {
  std::vector<int64_t> all;
  for (const GpuCounts& range : gpus) all.insert(all.end(), range.counts.begin(), range.counts.end());
  AXONN_CHECK(!all.empty(), "axonn_config", "how many GPUs? --gpus 1024");
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  AXONN_CHECK(twice == all.end(), kWhere, "--gpus has ", *twice, " twice: remove one");
  AXONN_CHECK(!given("knee") || all.size() > 1, kWhere, "--knee is for several counts, such as --gpus 8..4096");
  AXONN_CHECK(!given("top") || all.size() == 1, kWhere,
              "--top is for one number of GPUs: of several, the best layout "
              "of each is printed: remove it");
  AXONN_CHECK(measurements.empty() || all.size() == 1, kWhere, "--measurements is for one number of GPUs: remove it");
  AXONN_CHECK(!sensitivity || all.size() == 1, kWhere, "--sensitivity is for one number of GPUs: remove it");
  AXONN_CHECK(knee > 0 && knee <= 1, kWhere, "--knee must be more than 0 and at most 1, got ", knee);
  return all;
}

axonn::BandwidthMode PlannerOptions::bandwidths() const {
  const bool papers_counts = coefficients && *coefficients != axonn::Coefficients::trainer;
  return mode.value_or(papers_counts ? axonn::BandwidthMode::aware : axonn::BandwidthMode::exact);
}

// Flags that another one makes meaningless.
void PlannerOptions::refuse_ignored() const {
  for (size_t i = 0; i < fixed.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      AXONN_CHECK(fixed[i].axis != fixed[j].axis, kWhere, "--fix has axis ", axonn::to_string(fixed[i].axis),
                  " twice: remove one");
  AXONN_CHECK(bandwidths() == axonn::BandwidthMode::exact || !given("reduction"), kWhere,
              "--reduction is for mode exact: the other modes count only flat rings");
}

axonn::SearchOptions PlannerOptions::search(const axonn::NetworkModel& model) const {
  using axonn::BandwidthMode, axonn::Coefficients, axonn::Objective;
  refuse_ignored();
  axonn::SearchOptions options;
  options.batch_tokens = tokens_of_batch(model);
  options.mode = bandwidths();
  const bool papers_mode = options.mode != BandwidthMode::exact;
  options.coefficients = coefficients.value_or(papers_mode ? Coefficients::paper : Coefficients::trainer);
  const bool published = options.coefficients != Coefficients::trainer;
  options.objective = objective.value_or(published ? Objective::communication : Objective::time);
  options.order = order;
  for (const auto& [axis, size] : fixed) options.fixed[axis] = size;
  options.min_tensor = min_tensor;
  if (max_tensor != 0) options.max_tensor = max_tensor;
  options.precisions = precisions;
  options.checkpointing = checkpointing;
  options.micro_batch = micro_batch;
  options.multi_level = reduction == ReductionChoice::automatic;
  options.overlap = overlap;
  options.moments = axonn::optimizer_moments(optimizer);
  options.divided_update = divides(schedule);
  options.memory_margin = memory_margin;
  const WhatIf what = what_if();
  options.stages = what.stages;
  options.virtual_stages = what.virtual_stages;
  options.sequence_norms = what.sequence_norms;
  options.divided_gradients = what.divided_gradients;
  options.block_messages = what.block_messages;
  options.moment_bytes = what.moment_bytes;
  options.logits_chunks = what.logits_chunks;
  options.context = what.context;
  options.divided_update = options.divided_update || what.divided_gradients;
  AXONN_CHECK(!what.any() || options.coefficients == Coefficients::trainer, kWhere,
              "--what-if is for coefficients trainer: remove --mode and --coefficients");
  AXONN_CHECK(what.context.ranks == 1 || (options.mode == BandwidthMode::exact && !order), kWhere,
              "--what-if context is for mode exact and every placement: remove --mode and --order");
  options.top = top;
  return options;
}

std::string PlannerOptions::repeated() const {
  return table_.given_flags(with_networks({"network"}, {"job", "training"}));
}
