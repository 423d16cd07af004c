#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner_commands.hpp"
#include "scaling/scaling.hpp"

// The data of the page of --html.

// A ranking, with every layout's terms, the sensitivity of the best one, and other counts of GPUs.
nlohmann::ordered_json ranking_page(const Ranking& ranking);
// The best layout of every count of GPUs, with its terms.
nlohmann::ordered_json scaling_page(const PlannerOptions& line, const axonn::NetworkModel& network,
                                    const axonn::Machine& machine, const axonn::SearchOptions& options,
                                    const std::vector<ScalingRow>& rows);
