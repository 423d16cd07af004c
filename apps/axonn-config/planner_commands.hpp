#pragma once

#include <ostream>
#include <string>

#include "planner_options.hpp"

// A ranking, and what it was made from.
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
void write_plot(const std::string& file,
                const Ranking& ranking);  // SVG: the top layouts by part, with measured seconds where they are given

int run_ranking(const PlannerOptions& line);
int run_explain(const PlannerOptions& line);
int run_launch(const PlannerOptions& line);
int run_machine(const PlannerOptions& line);
int run_calibrate(char** arguments);  // becomes axonn-calibrate, which must lie beside this program; arguments[0] is "calibrate"

// Where ranks go, in words: "z4 | x2 z4", or the order of axes where a mode has no placement.
std::string place_text(const axonn::PlannedLayout& layout);
std::string fixed_text(double value, int digits);  // 1.2345 -> "1.23"
