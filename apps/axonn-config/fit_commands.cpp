// The commands fit and validate: the model's seconds beside measured ones.
#include "fit_commands.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/perfmodel/fit/constant_fit.hpp>

#include "output/columns.hpp"
#include "planner_commands.hpp"
#include "output/svg.hpp"

namespace {

using axonn::ConstantFit;
using axonn::Errors;
using axonn::errors_of;
using axonn::MeasuredRun;
using Json = nlohmann::ordered_json;
using Runs = std::vector<MeasuredRun>;

constexpr const char* kWhere = "axonn_config.fit";

std::string percent(double share, int digits = 1) { return fixed_text(100 * share, digits) + "%"; }

// Runs of one file on one kind of GPU.
struct Group {
  std::string file, gpu;
  Runs runs;
  std::vector<double> with_preset, held_out, by_factor;
  ConstantFit fit;
};

// Directories of runs are one group.
std::vector<Group> read_groups(const FitFlags& flags, const PlannerOptions& line) {
  const auto folder =
      std::ranges::find_if(flags.runs, [](const std::string& file) { return std::filesystem::is_directory(file); });
  AXONN_CHECK(folder == flags.runs.end() || !line.network.given(), kWhere, *folder,
              " is a run, which says its network: remove --model and sizes");
  std::optional<axonn::NetworkModel> network;
  if (line.network.given()) network = line.network.network();
  std::optional<axonn::Machine> machine;
  if (line.has_machine()) machine = axonn::find_machine(line.machine);
  std::vector<Group> groups;
  for (const std::string& file : flags.runs)
    for (MeasuredRun& run : read_runs(file, network ? &*network : nullptr, machine ? &*machine : nullptr)) {
      const std::string source = std::filesystem::is_directory(file) ? "runs" : file;
      const auto same = [&](const Group& group) { return group.file == source && group.gpu == run.machine.gpu; };
      auto found = std::ranges::find_if(groups, same);
      if (found == groups.end()) found = groups.insert(groups.end(), Group{.file = source, .gpu = run.machine.gpu});
      found->runs.push_back(std::move(run));
    }
  return groups;
}

std::string layout_text(const MeasuredRun& run) {
  std::string text = std::to_string(run.batch) + " / ";
  text += run.micro_batch > 0 ? std::to_string(run.micro_batch) : "best";
  return run.checkpointing == axonn::Checkpointing::off ? text : text + " " + std::string(to_string(run.checkpointing));
}

std::string grid_text(const MeasuredRun& run) {
  return run.best_grid() ? "best of " + std::to_string(run.gpus)
                         : run.grid.to_string() + (run.stages > 1 ? " x " + std::to_string(run.stages) : "");
}

void print_runs(const Runs& runs, const std::vector<double>& ratios) {
  std::vector<Column> columns = {{"run", true},  {"grid x.y.z.data", true}, {"batch / micro", true},
                                 {"measured s"}, {"predicted s"},           {"off"}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const MeasuredRun& run = runs[i];
    const std::string cells[] = {run.place,
                                 grid_text(run),
                                 layout_text(run),
                                 fixed_text(run.seconds, 4),
                                 fixed_text(run.seconds * ratios[i], 4),
                                 (ratios[i] < 1 ? "" : "+") + percent(ratios[i] - 1)};
    for (size_t column = 0; column < columns.size(); ++column) columns[column].cells.push_back(cells[column]);
  }
  print_columns(std::cout, columns);
}

std::string errors_text(const Errors& errors) {
  return "mean error " + percent(errors.mean) + ", median ratio " + fixed_text(errors.median_ratio, 3) + ", worst " +
         percent(errors.worst) + ", nine of ten within " + percent(errors.within_90);
}

void print_constants(const ConstantFit& fit) {
  for (const axonn::FittedConstant& one : fit.constants)
    std::cout << "  " << one.name << " " << fixed_text(one.before, 4)
              << (one.kept.empty() ? " -> " + fixed_text(one.after, 4) : ", kept: " + one.kept) << "\n";
}

Json constants_json(const ConstantFit& fit) {
  Json all = Json::object();
  for (const axonn::FittedConstant& one : fit.constants)
    all[one.name] = {{"before", one.before}, {"after", one.after}, {"kept", one.kept}};
  return all;
}

Json errors_json(const Errors& errors) {
  return {{"runs", errors.runs},
          {"mean_error", errors.mean},
          {"median_ratio", errors.median_ratio},
          {"worst", errors.worst},
          {"within_90", errors.within_90}};
}

Json run_json(const Group& group, size_t i) {
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

void judge(Group& group) {
  group.with_preset = ratios_of(group.runs.front().machine, group.runs);
  group.by_factor = held_out_by_factor(group.runs);
  if (group.runs.size() < kLeastRuns) return;
  group.fit = axonn::fit_constants(group.runs);
  group.held_out = held_out_ratios(group.runs);
}

// The best judgement of runs that were not seen.
const std::vector<double>& judged(const Group& group) {
  return group.held_out.empty() ? group.by_factor : group.held_out;
}

// The band of predictions with the fitted constants: as wide as runs that the fit did not see need.
double band_of(const ConstantFit& fit, const Runs& runs) {
  return runs.size() >= 4 ? errors_of(held_out_ratios(runs)).within_90 : errors_of(ratios_of(fit.machine, runs)).worst;
}

std::string name_of(const Group& group) { return std::filesystem::path(group.file).stem().string() + ", " + group.gpu; }

// Measured seconds across, predicted ones up, both logarithmic; on the diagonal they are equal.
void write_validation_plot(const std::string& file, const std::vector<Group>& all) {
  constexpr int kSize = 520, kEdge = 50;
  constexpr const char* kColors[] = {"#5b7fa6", "#c8553d", "#8a6fa8", "#4f9d69", "#c9a227", "#7a7a7a"};
  double least = 1e300, most = 0;
  for (const Group& one : all)
    for (const MeasuredRun& run : one.runs) {
      least = std::min(least, run.seconds / 1.5);
      most = std::max(most, run.seconds * 1.5);
    }
  const auto at = [&](double seconds) {
    return (kSize - 2 * kEdge) * std::log(std::clamp(seconds, least, most) / least) / std::log(most / least);
  };
  Svg svg(kSize, kSize);
  svg.text(8, 20, "seconds of a step: measured across, predicted up, of runs that the fit did not see");
  svg.line(kEdge, kSize - kEdge, kSize - kEdge, kEdge, "#bbbbbb");
  for (size_t kind = 0; kind < all.size(); ++kind) {
    const std::string color = kColors[kind % std::size(kColors)];
    const double y = kEdge + 16.0 * static_cast<double>(kind);
    svg.text(kEdge + 10, y, name_of(all[kind]));
    svg.circle(kEdge, y - 4, 4, color);
    for (size_t i = 0; i < all[kind].runs.size(); ++i) {
      const double seconds = all[kind].runs[i].seconds;
      svg.circle(kEdge + at(seconds), kSize - kEdge - at(seconds * judged(all[kind])[i]), 2.5, color);
    }
  }
  svg.text(kEdge, kSize - kEdge + 20, fixed_text(least, 2) + " s");
  svg.text(kSize - kEdge, kSize - kEdge + 20, fixed_text(most, 1) + " s", "end");
  svg.write(file);
}

void print_group(const Group& group, bool every_run) {
  std::cout << name_of(group) << ": " << group.runs.size() << " runs\n";
  if (every_run) print_runs(group.runs, judged(group));
  std::cout << "  constants of the preset: " << errors_text(errors_of(group.with_preset))
            << "\n  and computation slower by one factor, fitted on every second run, judged on the others: "
            << errors_text(errors_of(group.by_factor)) << "\n";
  if (group.held_out.empty()) return;
  std::cout << "  constants fitted on every second run, judged on the others: "
            << errors_text(errors_of(group.held_out)) << "\n  constants fitted to all runs:\n";
  print_constants(group.fit);
}

Json group_json(const Group& group) {
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

void FitFlags::add_to_fit(CLI::App& app, PlannerOptions& options) {
  app.add_option("runs", runs,
                 "directories of runs of gpt or unet (their --out); CSV files: columns grid, batch, micro_batch and "
                 "seconds, and precision, checkpointed, layers, hidden, heads, sequence, vocabulary")
      ->required();
  options.add_fit_flags(app);
  app.add_option("--out", out, "machine file to write, with the fitted constants and their band");
}

void FitFlags::add_to_validate(CLI::App& app, PlannerOptions& options) {
  app.add_option("runs", runs, "CSV files as fit reads them, such as bench/published/mpt_fsdp_a100.csv")->required();
  options.add_fit_flags(app);
  app.add_option("--plot", options.plot, "SVG file to write: predicted seconds over measured ones");
}

int run_fit(const FitFlags& flags, const PlannerOptions& line) {
  Runs runs;
  for (Group& group : read_groups(flags, line)) std::ranges::move(group.runs, std::back_inserter(runs));
  ConstantFit fit = axonn::fit_constants(runs);
  const axonn::Machine& given = runs.front().machine;
  fit.machine.error_band = band_of(fit, runs);
  const auto before = ratios_of(given, runs), after = ratios_of(fit.machine, runs);
  if (line.json) {
    std::cout << Json{{"constants", constants_json(fit)},
                      {"before", errors_json(errors_of(before))},
                      {"after", errors_json(errors_of(after))},
                      {"error_band", fit.machine.error_band}}
                     .dump(2)
              << "\n";
  } else {
    print_runs(runs, after);
    std::cout << "\n" << given.name << ", fitted to " << runs.size() << " runs:\n";
    print_constants(fit);
    std::cout << "before: " << errors_text(errors_of(before)) << "\nafter:  " << errors_text(errors_of(after))
              << "\nband:   " << percent(fit.machine.error_band) << "\n";
  }
  if (flags.out.empty()) return 0;
  fit.machine.name = given.name + " fitted";
  std::ofstream out(flags.out);
  out << machine_toml(fit.machine);
  out.close();
  AXONN_CHECK(out, kWhere, "cannot write ", flags.out, ": ", axonn::reason_and_cure(errno));
  return 0;
}

int run_validate(const FitFlags& flags, const PlannerOptions& line) {
  std::vector<Group> groups = read_groups(flags, line);
  for (Group& group : groups) judge(group);
  if (line.json) {
    Json all = Json::array();
    for (const Group& group : groups) all.push_back(group_json(group));
    std::cout << Json{{"groups", std::move(all)}}.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    for (const Group& group : groups) print_group(group, line.verbose);
  }
  if (!line.plot.empty()) write_validation_plot(line.plot, groups);
  return 0;
}
