#include "options/planner_options.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/network/networks.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.options";

// Sections of options, including the sections of every network's sizes.
std::vector<std::string_view> with_networks(std::vector<std::string_view> before,
                                            std::initializer_list<std::string_view> after) {
  std::ranges::copy(axonn::network_kinds(), std::back_inserter(before));
  before.insert(before.end(), after);
  return before;
}

}  // namespace

PlannerOptions::PlannerOptions() {
  table_.add("search", "gpus", gpus,
             "number of GPUs; of a list or a range (8..4096: 8, 16, 32, ...) only the best layout of each count");
  table_.add(
      "job", "machine", machine,
      "perlmutter (default), frontier, alps, dgx-a100, dgx-a100-40, dgx-h100, dgx-h200, workstation, or a .toml file");
  batch.bind(table_);
  ranked.bind(table_);
  training.bind(table_);
  what_ifs.bind(table_);
  grids.bind(table_);
  output.bind(table_);
  table_.add("launch", "launcher", launcher, "program that starts the ranks: srun (default) or mpirun");
}

void PlannerOptions::add_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job", "network"}, {"training"}));
  app.get_option("--batch-tokens")->excludes(app.get_option("--batch"));
  app.add_flag("--verbose", verbose, "errors name their place in the code");
}

void PlannerOptions::add_search_flags(CLI::App& app) {
  add_flags(app);
  table_.add_flags(app, {"search", "grids"});
  output.add_ranking_flags(app);
}

void PlannerOptions::add_fit_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job.machine", "network"}, {}));
  output.add_json(app);
  app.add_flag("--verbose", verbose, "every run; errors name their place in the code");
}

void PlannerOptions::add_import_flags(CLI::App& app) {
  table_.add_flags(app, with_networks({"job.machine", "job.memory_margin", "network"}, {}));
  app.add_flag("--verbose", verbose, "errors name their place in the code");
}

void PlannerOptions::add_explain_flags(CLI::App& app) {
  output.add_json(app);
  app.add_option("--against", against, "another grid: what it gains and loses, part by part");
}

void PlannerOptions::add_launch_flags(CLI::App& app) { table_.add_flags(app, {"launch"}); }

void PlannerOptions::refuse_what_if() const {
  AXONN_CHECK(!what_if().any(), kWhere, "--what-if is for the ranking and explain: remove it");
  training.refuse_other_recomputation();
}

bool PlannerOptions::can_be_launched(const axonn::NetworkModel& model) const {
  return !what_if().any() && !training.recomputes_otherwise() && !model.program.empty();
}

void PlannerOptions::refuse_beyond_export() const {
  AXONN_CHECK(!what_if().beyond_export(), kWhere,
              "export takes of --what-if only gather-keys, context-over-data and block-messages");
  training.refuse_other_recomputation();
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
              "--top is for one number of GPUs: of several, the best layout of each is printed: remove it");
  AXONN_CHECK(output.measurements.empty() || all.size() == 1, kWhere,
              "--measurements is for one number of GPUs: remove it");
  AXONN_CHECK(!output.sensitivity || all.size() == 1, kWhere, "--sensitivity is for one number of GPUs: remove it");
  AXONN_CHECK(output.knee > 0 && output.knee <= 1, kWhere, "--knee must be more than 0 and at most 1, got ",
              output.knee);
  return all;
}

axonn::SearchOptions PlannerOptions::search(const axonn::NetworkModel& model) const {
  axonn::SearchOptions options;
  grids.add_to(options);
  ranked.add_to(options);
  AXONN_CHECK(options.mode == axonn::BandwidthMode::exact || !given("reduction"), kWhere,
              "--reduction is for mode exact: the other modes count only flat rings");
  options.batch_tokens = batch.tokens_of(model);
  training.add_to(options);
  what_if().add_to(options);
  options.top = output.top;
  return options;
}

std::string PlannerOptions::repeated() const {
  return table_.given_flags(with_networks({"network"}, {"job", "training"}));
}
