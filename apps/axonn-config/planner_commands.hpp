#pragma once

#include <ostream>
#include <string>

#include "planner_options.hpp"

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
void print_json(std::ostream& out, const Ranking& ranking);
void print_csv(std::ostream& out, const Ranking& ranking);
// Writes SVG bars of the top layouts' steps, with measured seconds if given.
void write_plot(const std::string& file, const Ranking& ranking);

int run_ranking(const PlannerOptions& line);
int run_explain(const PlannerOptions& line);
int run_launch(const PlannerOptions& line);
int run_machine(const PlannerOptions& line);
// Replaces this process with axonn-calibrate, from the same directory. arguments[0] is "calibrate".
int run_calibrate(char** arguments);

// The axes inside a node, such as "x2 z2"; "-" without a placement.
std::string place_text(const axonn::PlannedLayout& layout);
std::string fixed_text(double value, int digits);  // 1.2345 -> "1.23"
