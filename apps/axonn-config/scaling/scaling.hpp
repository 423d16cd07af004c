#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <axonn/perfmodel/search/grid_search.hpp>

#include "options/planner_options.hpp"

// The best layout of one count of GPUs.
struct ScalingRow {
  int64_t gpus = 0;
  std::optional<axonn::PlannedLayout> layout;
  std::string reason;     // why there is no layout
  double efficiency = 0;  // speed per GPU, of that of the first count with a layout
  double gpu_hours = 0;   // per 1e9 tokens or images
  double dollars = 0;     // the same; 0: the machine has no price
};

std::vector<ScalingRow> scaling_rows(const PlannerOptions& line, const axonn::NetworkModel& network,
                                     const axonn::Machine& machine, const axonn::SearchOptions& options,
                                     const std::vector<int64_t>& counts);
nlohmann::ordered_json scaling_json(const PlannerOptions& line, const axonn::NetworkModel& network,
                                    const axonn::Machine& machine, const axonn::SearchOptions& options,
                                    const std::vector<ScalingRow>& rows);

// Writes SVG: tokens per second by GPUs, beside the first count's speed times the GPUs. Both axes
// are logarithmic.
void write_scaling_plot(const std::string& file, const axonn::NetworkModel& network, const axonn::Machine& machine,
                        const std::vector<ScalingRow>& rows);
