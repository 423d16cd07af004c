// The best layout of every count of GPUs: where more GPUs stop paying.
#include <algorithm>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

#include "html/page_data.hpp"
#include "output/columns.hpp"
#include "page/page_file.hpp"
#include "planner_commands.hpp"
#include "scaling/scaling.hpp"

namespace {

using Json = nlohmann::ordered_json;
using axonn::PlannedLayout;

// Why a count has no layout; it is not an error beside others that have one.
ScalingRow row_of(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
                  axonn::SearchOptions options, int64_t gpus) {
  options.gpus = gpus / options.stages;
  options.top = 1;
  try {
    const auto result = axonn::search_grids(network, machine, options);
    if (!result.layouts.empty()) return {.gpus = gpus, .layout = result.layouts.front()};
    return {.gpus = gpus, .reason = nothing_text({line, network, machine, options, result})};
  } catch (const axonn::UserError& error) {
    return {.gpus = gpus, .reason = error.sentence()};
  }
}

// The last count before the first one whose efficiency is less than `share`.
const ScalingRow* knee_of(const std::vector<ScalingRow>& rows, double share) {
  const ScalingRow* knee = nullptr;
  for (const ScalingRow& row : rows) {
    if (!row.layout) continue;
    if (row.efficiency < share) break;
    knee = &row;
  }
  return knee;
}

void print_scaling_table(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
                         const axonn::SearchOptions& options, const std::vector<ScalingRow>& rows) {
  std::vector<Column> columns = {{"GPUs"},
                                 {"grid x.y.z.data", true},
                                 {"inside a node", true},
                                 {"passes"},
                                 {"step s"},
                                 {network.tokens + "/s"},
                                 {"efficiency"},
                                 {"of peak"},
                                 {"GPU-h per G " + network.tokens}};
  const bool priced = machine.dollars_per_gpu_hour > 0;
  if (priced) columns.push_back({"$"});
  for (const ScalingRow& row : rows) {
    std::vector<std::string> cells(columns.size(), "-");
    cells[0] = std::to_string(row.gpus);
    if (row.layout) {
      const PlannedLayout& layout = *row.layout;
      cells = {cells[0],
               layout.grid.to_string(),
               place_text(layout),
               micro_text(layout),
               fixed_text(layout.time.seconds(), 3),
               axonn::with_unit(layout.tokens_per_second),
               fixed_text(100 * row.efficiency, 1) + "%",
               fixed_text(100 * layout.model_utilisation, 1) + "%",
               fixed_text(row.gpu_hours, 1)};
      if (priced) cells.push_back(fixed_text(row.dollars, 0));
    }
    for (size_t i = 0; i < cells.size(); ++i) columns[i].cells.push_back(cells[i]);
  }
  std::cout << network_text(network) << "\n"
            << axonn::with_unit(static_cast<double>(options.batch_tokens)) << " " << network.tokens << " per batch on "
            << machine.name << ", by " << to_string(options.objective) << "\n"
            << what_if_text(options) << band_text(machine) << "\n\n";
  print_columns(std::cout, columns);
  std::cout << "\nefficiency: " << network.tokens << "/s per GPU, of those of the first count\n";
  for (const ScalingRow& row : rows)
    if (!row.layout) std::cout << row.gpus << " GPUs: " << row.reason << "\n";
  if (const ScalingRow* knee = knee_of(rows, line.output.knee))
    std::cout << "knee: up to " << knee->gpus << " GPUs keep " << fixed_text(100 * line.output.knee, 0)
              << "% of the first count's speed per GPU\nnext: axonn-config --gpus " << knee->gpus << line.repeated()
              << "\n";
}

void print_scaling_csv(const std::vector<ScalingRow>& rows) {
  std::cout << "gpus,x,y,z,data,seconds,tokens_per_second,efficiency,model_flops_utilisation,gpu_hours_per_billion,"
               "dollars_per_billion\n";
  const auto precision = std::cout.precision(10);
  for (const ScalingRow& row : rows) {
    if (!row.layout) continue;
    const PlannedLayout& layout = *row.layout;
    std::cout << row.gpus << ',' << layout.grid.x << ',' << layout.grid.y << ',' << layout.grid.z << ','
              << layout.grid.data << ',' << layout.time.seconds() << ',' << layout.tokens_per_second << ','
              << row.efficiency << ',' << layout.model_utilisation << ',' << row.gpu_hours << ',' << row.dollars
              << "\n";
  }
  std::cout.precision(precision);
}

}  // namespace

std::vector<ScalingRow> scaling_rows(const PlannerOptions& line, const axonn::NetworkModel& network,
                                     const axonn::Machine& machine, const axonn::SearchOptions& options,
                                     const std::vector<int64_t>& counts) {
  std::vector<ScalingRow> rows;
  double first = 0;  // tokens per second per GPU
  for (const int64_t gpus : counts) {
    ScalingRow& row = rows.emplace_back(row_of(line, network, machine, options, gpus));
    if (!row.layout) continue;
    const double each = row.layout->tokens_per_second / static_cast<double>(gpus);
    if (first == 0) first = each;
    row.efficiency = each / first;
    row.gpu_hours = 1e9 / each / 3600;
    row.dollars = row.gpu_hours * machine.dollars_per_gpu_hour;
  }
  return rows;
}

nlohmann::ordered_json scaling_json(const PlannerOptions& line, const axonn::NetworkModel& network,
                                    const axonn::Machine& machine, const axonn::SearchOptions& options,
                                    const std::vector<ScalingRow>& rows) {
  Json counts = Json::array();
  for (const ScalingRow& row : rows) {
    Json one = {{"gpus", row.gpus}};
    if (row.layout) {
      one["efficiency"] = row.efficiency;
      one["gpu_hours_per_billion"] = row.gpu_hours;
      one["dollars_per_billion"] = row.dollars;
      one["layout"] = layout_json(*row.layout);
    } else {
      one["reason"] = row.reason;
    }
    counts.push_back(std::move(one));
  }
  const ScalingRow* knee = knee_of(rows, line.output.knee);
  Json all = ranking_inputs_json(network, machine, options);
  all["knee"] = knee ? Json(knee->gpus) : Json(nullptr);
  all["counts"] = std::move(counts);
  return all;
}

int run_scaling(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
                const axonn::SearchOptions& options, const std::vector<int64_t>& counts) {
  const auto rows = scaling_rows(line, network, machine, options, counts);
  const bool any = std::ranges::any_of(rows, [](const ScalingRow& row) { return row.layout.has_value(); });
  AXONN_CHECK(any, "axonn_config.scaling", "no count of GPUs has a layout; with ", rows.front().gpus, ": ",
              rows.front().reason);
  if (line.output.json)
    print_json(std::cout, scaling_json(line, network, machine, options, rows));
  else if (line.output.csv)
    print_scaling_csv(rows);
  else
    print_scaling_table(line, network, machine, options, rows);
  if (!line.output.plot.empty()) write_scaling_plot(line.output.plot, network, machine, rows);
  if (!line.output.html.empty()) write_page(line.output.html, scaling_page(line, network, machine, options, rows));
  return 0;
}
