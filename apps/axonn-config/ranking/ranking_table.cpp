// The ranking as a table.
#include <algorithm>

#include <axonn/core/text.hpp>

#include "output/columns.hpp"
#include "planner_commands.hpp"

namespace {

using axonn::bytes_text;
using axonn::PlannedLayout;
using axonn::with_unit;

// The part of the step in which this layout loses the most time to the best one.
std::string lost_by(const PlannedLayout& layout, const PlannedLayout& best) {
  const axonn::StepTime &mine = layout.time, &its = best.time;
  const std::pair<double, const char*> parts[] = {{mine.compute() - its.compute(), "compute"},
                                                  {mine.exposed_all_reduce - its.exposed_all_reduce, "AR"},
                                                  {mine.exposed_gather_scatter - its.exposed_gather_scatter, "AG/RS"},
                                                  {mine.exposed_data - its.exposed_data, "data"},
                                                  {mine.exposed_context - its.exposed_context, "context"}};
  const auto worst = std::ranges::max_element(parts, {}, [](const auto& part) { return part.first; });
  return worst->first * 1000 < 0.5 ? "" : "+" + fixed_text(worst->first, 3) + " " + worst->second;
}

std::vector<Column> columns_of(const Ranking& ranking) {
  std::vector<Column> columns = {{"rank"},
                                 {"grid x.y.z.data", true},
                                 {"inside a node", true},
                                 {"step s"},
                                 {"compute"},
                                 {"exposed: AR"},
                                 {"AG/RS"},
                                 {"data"},
                                 {"exposed"},
                                 {"comm s"},
                                 {"passes"},
                                 {"memory/GPU"},
                                 {"cached"},
                                 {ranking.network.tokens + "/s"},
                                 {"of peak"},
                                 {"lost by", true}};
  const bool context = ranking.options.context.ranks != 1;
  if (context) columns.push_back({"context"});
  if (ranking.options.objective == axonn::Objective::cost) columns.push_back({"$/step"});
  if (ranking.options.precisions.size() > 1) columns.push_back({"type", true});
  const std::vector<size_t> ranks = shared_ranks(ranking);
  for (const PlannedLayout& layout : ranking.result.layouts) {
    const axonn::StepTime& time = layout.time;
    std::vector<std::string> cells = {std::to_string(ranks[columns.front().cells.size()]),
                                      layout.grid.to_string(),
                                      place_text(layout),
                                      fixed_text(time.seconds(), 3),
                                      fixed_text(time.compute(), 3),
                                      fixed_text(time.exposed_all_reduce, 3),
                                      fixed_text(time.exposed_gather_scatter, 3),
                                      fixed_text(time.exposed_data, 3),
                                      fixed_text(100 * time.exposed() / time.seconds(), 1) + "%",
                                      fixed_text(time.communication.total(), 4),
                                      micro_text(layout),
                                      bytes_text(static_cast<double>(layout.memory_bytes())),
                                      layout.grid.z > 1 ? fixed_text(100 * layout.cached, 0) + "%" : "-",
                                      with_unit(layout.tokens_per_second),
                                      fixed_text(100 * layout.model_utilisation, 1) + "%",
                                      lost_by(layout, ranking.result.layouts.front())};
    if (context) cells.push_back(fixed_text(time.exposed_context, 3));
    if (ranking.options.objective == axonn::Objective::cost) cells.push_back(fixed_text(layout.dollars, 4));
    if (ranking.options.precisions.size() > 1) cells.emplace_back(to_string(layout.precision));
    for (size_t i = 0; i < cells.size(); ++i) columns[i].cells.push_back(cells[i]);
  }
  return columns;
}

void print_head(std::ostream& out, const Ranking& ranking) {
  const auto& machine = ranking.machine;
  out << network_text(ranking.network) << "\n"
      << what_if_text(ranking.options) << with_unit(static_cast<double>(ranking.options.batch_tokens)) << " "
      << ranking.network.tokens << " per batch, ";
  const int64_t gpus = ranking.options.gpus, node = machine.node_size();
  if (node > 1 && gpus > node)
    out << gpus / node << " nodes x " << node << " " << machine.gpu;
  else
    out << gpus << " " << machine.gpu;
  out << " with " << bytes_text(machine.memory_bytes()) << " (" << machine.name << ")\n"
      << "bandwidths " << to_string(ranking.options.mode) << ", collectives as "
      << to_string(ranking.options.coefficients) << ", ranked by " << to_string(ranking.options.objective)
      << "; searched " << ranking.result.candidates << " layouts of " << ranking.result.considered << " grids in "
      << fixed_text(ranking.milliseconds, 1) << " ms\n"
      << band_text(machine) << "; layouts within it of each other share a rank\n\n";
}

}  // namespace

void print_table(std::ostream& out, const Ranking& ranking) {
  if (ranking.result.layouts.empty()) return;
  print_head(out, ranking);
  print_columns(out, columns_of(ranking));
  const std::string best = ranking.result.layouts.front().grid.to_string();
  out << "\npasses: micro-batches x " << ranking.network.samples
      << " of each; again: blocks run forward again (activation checkpointing)"
      << (ranking.options.attention_rows == axonn::AttentionRows::off ? "" : "; rows: of queries, divided")
      << (ranking.options.norm_rows == axonn::NormRows::off ? "" : "; norms: their rows divided")
      << (ranking.options.context.ranks == 1
              ? ""
              : "; context N: each sequence over N ranks of z" +
                    std::string(ranking.options.context.over_data ? " (of data if z = 1)" : ""))
      << "\n"
         "cached: share of the weights gathered over z that stay, in what is left of the memory\n";
  if (!ranking.result.rejections.empty()) out << "not possible: " << rejections_text(ranking) << "\n";
  if (ranking.line.output.sensitivity) print_sensitivity(out, ranking);
  out << "next: axonn-config explain " << best << ranking.line.repeated() << "\n";
  if (ranking.line.can_be_launched(ranking.network))
    out << "      axonn-config launch " << best << ranking.line.repeated() << " > run.sbatch\n";
}
