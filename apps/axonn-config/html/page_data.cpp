// The numbers of the page of --html.
#include <algorithm>

#include <nlohmann/json.hpp>

#include <axonn/core/version.hpp>

#include "explain/explained_job.hpp"
#include "html/page_data.hpp"

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFurther = 16;  // times as many GPUs, and as few, are on the curve of a ranking

Json facts(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
           const axonn::SearchOptions& options) {
  return {{"program", "axonn-config " + std::string(axonn::version())},
          {"flags", line.repeated()},
          {"launchable", line.can_be_launched(network)},
          {"network", network_text(network)},
          {"samples", network.samples},
          {"gpu", machine.gpu},
          {"memory_bytes", machine.memory_bytes()},
          {"usable_bytes", machine.memory_bytes() * (1 - options.memory_margin)},
          {"band", band_text(machine)},
          {"knee_share", line.output.knee}};
}

Json details(const axonn::NetworkModel& network, const axonn::Machine& machine, const axonn::SearchOptions& options,
             const axonn::PlannedLayout& layout) {
  return {{"place", place_text(layout)}, {"terms", explained_terms({network, machine, options, layout})}};
}

// Half as many GPUs and twice as many, again and again. All divide by the stages.
std::vector<int64_t> counts_around(int64_t gpus, int64_t stages) {
  std::vector<int64_t> counts;
  for (int64_t count = gpus; count >= 1 && count * kFurther >= gpus; count /= 2) {
    counts.insert(counts.begin(), count);
    if (count % (2 * stages) != 0) break;
  }
  for (int64_t count = 2 * gpus; count <= std::min(axonn::kMostGpus, gpus * kFurther); count *= 2)
    counts.push_back(count);
  return counts;
}

}  // namespace

Json ranking_page(const Ranking& ranking) {
  const auto& [line, network, machine, options, result, milliseconds] = ranking;
  const bool any = !result.layouts.empty();
  const int64_t gpus = options.gpus * options.stages;
  const auto rows = scaling_rows(line, network, machine, options, counts_around(gpus, options.stages));
  Json page = facts(line, network, machine, options), all = Json::array();
  for (const axonn::PlannedLayout& layout : result.layouts) all.push_back(details(network, machine, options, layout));
  page["gpus"] = gpus;
  page["problem"] = any ? "" : nothing_text(ranking);
  page["ranking"] = ranking_json(ranking);
  page["details"] = std::move(all);
  page["sensitivity"] = any ? sensitivity_json(ranking) : Json(nullptr);
  page["scaling"] = scaling_json(line, network, machine, options, rows);
  return page;
}

Json scaling_page(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
                  const axonn::SearchOptions& options, const std::vector<ScalingRow>& rows) {
  Json page = facts(line, network, machine, options), all = Json::array();
  for (const ScalingRow& row : rows)
    if (row.layout) all.push_back(details(network, machine, options, *row.layout));
  page["gpus"] = nullptr;
  page["problem"] = "";
  page["ranking"] = nullptr;
  page["details"] = std::move(all);
  page["sensitivity"] = nullptr;
  page["scaling"] = scaling_json(line, network, machine, options, rows);
  return page;
}
