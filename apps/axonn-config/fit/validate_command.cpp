// The command validate: predicted beside measured seconds of many runs.
#include <iostream>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "fit/measured_groups.hpp"

namespace {

using axonn::errors_of;
using axonn::MeasuredRun;
using Json = nlohmann::ordered_json;

Json run_json(const MeasuredGroup& group, size_t i) {
  const MeasuredRun& run = group.runs[i];
  Json one = {{"run", run.place},
              {"machine", run.machine.name},
              {"gpus", run.gpus},
              {"checkpointed", to_string(run.checkpointing)},
              {"seconds", run.seconds},
              {"preset_ratio", group.with_preset[i]},
              {"factor_ratio", group.by_factor[i]}};
  for (const axonn::NamedSize& size : run.network.sizes)
    if (size.number) one[size.name] = *size.number;
  if (!group.held_out.empty()) one["held_out_ratio"] = group.held_out[i];
  return one;
}

// Six constants are fitted to no fewer than this many runs.
constexpr size_t kLeastRuns = 24;

void judge(MeasuredGroup& group) {
  group.with_preset = ratios_of(group.runs.front().machine, group.runs);
  group.by_factor = held_out_by_factor(group.runs);
  if (group.runs.size() < kLeastRuns) return;
  group.fit = axonn::fit_constants(group.runs);
  group.held_out = held_out_ratios(group.runs);
}

void print_group(const MeasuredGroup& group, bool every_run) {
  std::cout << group.name() << ": " << group.runs.size() << " runs\n";
  if (every_run) print_runs(group.runs, group.judged());
  std::cout << "  constants of the preset: " << errors_text(errors_of(group.with_preset))
            << "\n  and computation slower by one factor, fitted on every second run, judged on the others: "
            << errors_text(errors_of(group.by_factor)) << "\n";
  if (group.held_out.empty()) return;
  std::cout << "  constants fitted on every second run, judged on the others: "
            << errors_text(errors_of(group.held_out)) << "\n  constants fitted to all runs:\n";
  print_constants(group.fit);
}

Json group_json(const MeasuredGroup& group) {
  Json runs = Json::array();
  for (size_t i = 0; i < group.runs.size(); ++i) runs.push_back(run_json(group, i));
  Json one = {{"file", group.file},
              {"gpu", group.gpu},
              {"preset", errors_json(errors_of(group.with_preset))},
              {"factor", axonn::slowdown_of(group.runs)},
              {"by_factor", errors_json(errors_of(group.by_factor))}};
  if (!group.held_out.empty()) {
    one["held_out"] = errors_json(errors_of(group.held_out));
    one["constants"] = constants_json(group.fit);
  }
  one["runs"] = std::move(runs);
  return one;
}

}  // namespace

void FitFlags::add_to_validate(CLI::App& app, PlannerOptions& options) {
  app.add_option("runs", runs, "CSV files as fit reads them, such as bench/published/mpt_fsdp_a100.csv")->required();
  options.add_fit_flags(app);
  app.add_option("--plot", options.output.plot, "SVG file to write: predicted seconds over measured ones");
}

int run_validate(const FitFlags& flags, const PlannerOptions& line) {
  std::vector<MeasuredGroup> groups = read_groups(flags, line);
  for (MeasuredGroup& group : groups) judge(group);
  if (line.output.json) {
    Json all = Json::array();
    for (const MeasuredGroup& group : groups) all.push_back(group_json(group));
    std::cout << Json{{"groups", std::move(all)}}.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    for (const MeasuredGroup& group : groups) print_group(group, line.verbose);
  }
  if (!line.output.plot.empty()) write_validation_plot(line.output.plot, groups);
  return 0;
}
