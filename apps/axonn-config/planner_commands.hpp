#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "output/columns.hpp"
#include "options/planner_options.hpp"

// A ranking and its inputs.
struct Ranking {
  const PlannerOptions& line;
  const axonn::NetworkModel& network;
  const axonn::Machine& machine;
  const axonn::SearchOptions& options;
  const axonn::SearchResult& result;
  double milliseconds = 0;
};

void print_table(std::ostream& out, const Ranking& ranking);
nlohmann::ordered_json ranking_json(const Ranking& ranking);
void print_json(std::ostream& out, const nlohmann::ordered_json& json);
void print_csv(std::ostream& out, const Ranking& ranking);
// Writes SVG bars of the top layouts' steps, with measured seconds if given.
void write_plot(const std::string& file, const Ranking& ranking);

nlohmann::ordered_json layout_json(const axonn::PlannedLayout& layout);
nlohmann::ordered_json ranking_inputs_json(const axonn::NetworkModel& network, const axonn::Machine& machine,
                                           const axonn::SearchOptions& options);

std::vector<size_t> shared_ranks(const Ranking& ranking);  // one per layout, from 1
std::string band_text(const axonn::Machine& machine);      // "seconds within 10% of nine of ten measured runs"

// How often the best layout stays the best, and what it loses otherwise, when the machine's
// constants change at random (always the same draws).
void print_sensitivity(std::ostream& out, const Ranking& ranking);
nlohmann::ordered_json sensitivity_json(const Ranking& ranking);

int run_ranking(const PlannerOptions& line);
// The best layout of every count of GPUs, in a table, as JSON or as CSV: speed, efficiency, cost,
// and the last count that is worth its GPUs. 1 if none has a layout.
int run_scaling(const PlannerOptions& line, const axonn::NetworkModel& network, const axonn::Machine& machine,
                const axonn::SearchOptions& options, const std::vector<int64_t>& counts);
int run_explain(const PlannerOptions& line);
int run_launch(const PlannerOptions& line);
int run_machine(const PlannerOptions& line);
// Replaces this process with axonn-calibrate, from the same directory. arguments[0] is "calibrate".
int run_calibrate(char** arguments);

// The axes inside a node, such as "x2 z2"; "-" without a placement.
std::string place_text(const axonn::PlannedLayout& layout);
std::string micro_text(const axonn::PlannedLayout& layout);    // "4 x 2 again"
std::string network_text(const axonn::NetworkModel& network);  // sizes and parameters, in one line
// A line that says what this trainer does not do; empty if there is nothing.
std::string what_if_text(const axonn::SearchOptions& options);
// ", each sequence over 8 ranks of z", after `separator`; empty if they are not divided.
std::string context_text(const axonn::ContextSplit& context, const char* separator);
std::string rejections_text(const Ranking& ranking);  // "14 over 36.80 GiB (closest ...), 3 with ..."
std::string nothing_text(const Ranking& ranking);     // the sentence for a ranking without layouts
