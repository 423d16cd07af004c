// The commands without a subcommand, which ranks, and machine.
#include <chrono>
#include <iostream>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>

#include "html/page_data.hpp"
#include "page/page_file.hpp"
#include "planner_commands.hpp"

namespace {

void print_ranking(std::ostream& out, const Ranking& ranking) {
  if (ranking.line.output.json)
    print_json(out, ranking_json(ranking));
  else if (ranking.line.output.csv)
    print_csv(out, ranking);
  else
    print_table(out, ranking);
}

}  // namespace

// Layouts whose values differ by less than the band of the first one of their rank share its rank.
// Bytes are counted, not measured: only equal ones share.
std::vector<size_t> shared_ranks(const Ranking& ranking) {
  const double band = ranking.options.objective == axonn::Objective::memory ? 0 : ranking.machine.band();
  std::vector<size_t> ranks;
  double first = 0;
  for (const axonn::PlannedLayout& layout : ranking.result.layouts) {
    const bool shares = !ranks.empty() && (layout.ties_with_previous || layout.value <= first * (1 + band));
    if (!shares) first = layout.value;
    ranks.push_back(shares ? ranks.back() : ranks.size() + 1);
  }
  return ranks;
}

int run_ranking(const PlannerOptions& line) {
  const auto counts = line.counts();
  const auto network = line.planned_network();
  const auto machine = axonn::find_machine(line.machine);
  auto options = line.search(network);
  for (const int64_t count : counts)
    AXONN_CHECK(count % options.stages == 0, "axonn_config.what_if", "--gpus ", count, " must divide by the ",
                options.stages, " stages of --what-if pipeline");
  if (counts.size() > 1) return run_scaling(line, network, machine, options, counts);
  options.gpus = counts.front() / options.stages;
  const auto begin = std::chrono::steady_clock::now();
  const auto result = axonn::search_grids(network, machine, options);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const Ranking ranking = {line, network, machine, options, result, took.count()};
  print_ranking(std::cout, ranking);
  std::cout.flush();
  if (!line.output.plot.empty()) write_plot(line.output.plot, ranking);
  if (!line.output.html.empty()) write_page(line.output.html, ranking_page(ranking));
  if (!result.layouts.empty()) return 0;
  std::cerr << "axonn-config: " << nothing_text(ranking) << "\n";
  return 1;
}

int run_machine(const PlannerOptions& line) {
  std::cout << axonn::machine_toml(axonn::find_machine(line.machine));
  return 0;
}
