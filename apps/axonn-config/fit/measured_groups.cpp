#include "fit/measured_groups.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>

#include "output/columns.hpp"

namespace {

using axonn::MeasuredRun;
using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "axonn_config.fit";

std::string layout_text(const MeasuredRun& run) {
  std::string text = std::to_string(run.batch) + " / ";
  text += run.micro_batch > 0 ? std::to_string(run.micro_batch) : "best";
  return run.checkpointing == axonn::Checkpointing::off ? text : text + " " + std::string(to_string(run.checkpointing));
}

std::string grid_text(const MeasuredRun& run) {
  return run.best_grid() ? "best of " + std::to_string(run.gpus)
                         : run.grid.to_string() + (run.stages > 1 ? " x " + std::to_string(run.stages) : "");
}

}  // namespace

std::string MeasuredGroup::name() const { return std::filesystem::path(file).stem().string() + ", " + gpu; }

std::vector<MeasuredGroup> read_groups(const FitFlags& flags, const PlannerOptions& line) {
  const auto folder =
      std::ranges::find_if(flags.runs, [](const std::string& file) { return std::filesystem::is_directory(file); });
  AXONN_CHECK(folder == flags.runs.end() || !line.network.given(), kWhere, *folder,
              " is a run, which says its network: remove --model and sizes");
  std::optional<axonn::NetworkModel> network;
  if (line.network.given()) network = line.network.network();
  std::optional<axonn::Machine> machine;
  if (line.has_machine()) machine = axonn::find_machine(line.machine);
  std::vector<MeasuredGroup> groups;
  for (const std::string& file : flags.runs)
    for (MeasuredRun& run : read_runs(file, network ? &*network : nullptr, machine ? &*machine : nullptr)) {
      const std::string source = std::filesystem::is_directory(file) ? "runs" : file;
      const auto same = [&](const MeasuredGroup& group) {
        return group.file == source && group.gpu == run.machine.gpu;
      };
      auto found = std::ranges::find_if(groups, same);
      if (found == groups.end())
        found = groups.insert(groups.end(), MeasuredGroup{.file = source, .gpu = run.machine.gpu});
      found->runs.push_back(std::move(run));
    }
  return groups;
}

std::string percent(double share, int digits) { return fixed_text(100 * share, digits) + "%"; }

std::string errors_text(const axonn::Errors& errors) {
  return "mean error " + percent(errors.mean) + ", median ratio " + fixed_text(errors.median_ratio, 3) + ", worst " +
         percent(errors.worst) + ", nine of ten within " + percent(errors.within_90);
}

void print_runs(const MeasuredRuns& runs, const std::vector<double>& ratios) {
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

void print_constants(const axonn::ConstantFit& fit) {
  for (const axonn::FittedConstant& one : fit.constants)
    std::cout << "  " << one.name << " " << fixed_text(one.before, 4)
              << (one.kept.empty() ? " -> " + fixed_text(one.after, 4) : ", kept: " + one.kept) << "\n";
}

Json constants_json(const axonn::ConstantFit& fit) {
  Json all = Json::object();
  for (const axonn::FittedConstant& one : fit.constants)
    all[one.name] = {{"before", one.before}, {"after", one.after}, {"kept", one.kept}};
  return all;
}

Json errors_json(const axonn::Errors& errors) {
  return {{"runs", errors.runs},
          {"mean_error", errors.mean},
          {"median_ratio", errors.median_ratio},
          {"worst", errors.worst},
          {"within_90", errors.within_90}};
}
