// The ranking as a table, and the command that computes it.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include <axonn/core/error.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>

#include "output/columns.hpp"
#include "planner_commands.hpp"

namespace {

using axonn::bytes_text;
using axonn::PlannedLayout;
using axonn::Rejection;
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
  const bool context = ranking.options.context.ranks > 1;
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

std::string rejections_text(const Ranking& ranking) {
  std::map<std::string, std::vector<const Rejection*>> by_reason;
  for (const Rejection& rejection : ranking.result.rejections) by_reason[rejection.reason].push_back(&rejection);
  std::string text;
  for (auto& [reason, all] : by_reason) {
    text += (text.empty() ? "" : ", ") + std::to_string(all.size());
    if (reason != "memory") {
      text += " with " + reason + " != 0";
      continue;
    }
    std::ranges::stable_sort(all, {}, &Rejection::bytes_over);
    const double usable = ranking.machine.memory_bytes() * (1 - ranking.options.memory_margin);
    text += " over " + bytes_text(usable) + " (closest";
    for (size_t i = 0; i < std::min<size_t>(all.size(), ranking.result.layouts.empty() ? 5 : 1); ++i)
      text += (i == 0 ? " " : ", ") + all[i]->grid.to_string() + " " +
              bytes_text(static_cast<double>(all[i]->bytes_over)) + " too much";
    text += ")";
  }
  return text;
}

// Whether a grid fits, memory included.
bool any_fits(const Ranking& ranking, axonn::SearchOptions options) {
  options.top = 1;
  return !search_grids(ranking.network, ranking.machine, options).layouts.empty();
}

// What else would fit, if it is not for want of memory. What has a grid, but too little memory for
// it, is named without a flag.
std::string advice_text(const Ranking& ranking) {
  constexpr const char* kShort = "; if there were memory for it, the nearest ";
  const axonn::SearchOptions& options = ranking.options;
  std::string text;
  if (const auto all = nearest_batches(ranking.network, ranking.machine, options); !all.empty()) {
    std::vector<int64_t> batches;
    std::ranges::copy_if(all, std::back_inserter(batches), [&](int64_t batch) {
      axonn::SearchOptions other = options;
      other.batch_tokens = batch * ranking.network.tokens_per_sample;
      return any_fits(ranking, other);
    });
    text += batches.empty()
                ? kShort + ("batches that have one: " + axonn::join(all, " and ")) + " " + ranking.network.samples
                : "; the nearest batches that have one: " + axonn::join(batches, " and ") + " " +
                      ranking.network.samples + " (--batch " + std::to_string(batches.back()) + ")";
  }
  const auto all = nearest_gpu_counts(ranking.network, ranking.machine, options, options.gpus);
  if (all.empty()) return text + "; no count near it has one";
  std::vector<int64_t> counts;
  std::ranges::copy_if(all, std::back_inserter(counts), [&](int64_t count) {
    axonn::SearchOptions other = options;
    other.gpus = count;
    return any_fits(ranking, other);
  });
  const bool fits = !counts.empty();
  if (!fits) counts = all;
  for (int64_t& count : counts) count *= options.stages;  // a user counts the GPUs of all stages
  return text + (fits ? "; the nearest counts that have one: " : kShort + std::string("counts that have one: ")) +
         axonn::join(counts, " and ");
}

void print_ranking(std::ostream& out, const Ranking& ranking) {
  if (ranking.line.json)
    print_json(out, ranking);
  else if (ranking.line.csv)
    print_csv(out, ranking);
  else
    print_table(out, ranking);
}

}  // namespace

// "llama.json: layers 32, hidden 4096, ..., 8030261248 parameters"
std::string network_text(const axonn::NetworkModel& network) {
  std::string text = network.name + ":";
  for (const axonn::NamedSize& size : network.sizes)
    text += " " + size.name + (size.value == "true" ? "" : " " + size.value) + ",";
  text += " " + std::to_string(network.parameters) + " parameters";
  if (network.active_parameters < network.parameters && network.active_parameters > 0)
    text += ", of which a token meets " + std::to_string(network.active_parameters);
  return text;
}

// The message when no grid fits, with the closest ones.
std::string nothing_text(const Ranking& ranking) {
  const bool any_in_memory =
      std::ranges::any_of(ranking.result.rejections, [](const Rejection& r) { return r.reason == "memory"; });
  const int64_t stages = ranking.options.stages;
  std::string text = "no grid of " + std::to_string(ranking.options.gpus) + " GPUs" +
                     (stages > 1 ? ", for one of " + std::to_string(stages) + " stages," : "") + " fits " +
                     ranking.network.name + ": " + rejections_text(ranking);
  if (ranking.result.rejections.empty()) text += "none is within the bounds that were asked for";
  return any_in_memory ? text : text + advice_text(ranking);
}

std::string micro_text(const axonn::PlannedLayout& layout) {
  return std::to_string(layout.micro_batches) + " x " + std::to_string(layout.micro_batch) +
         (layout.checkpoint() ? " again" : "");
}

std::string place_text(const axonn::PlannedLayout& layout) {
  if (!layout.placement) return "-";
  return axonn::AxisPlacement{{layout.placement->levels.front()}}.to_string();
}

void print_table(std::ostream& out, const Ranking& ranking) {
  if (ranking.result.layouts.empty()) return;
  print_head(out, ranking);
  print_columns(out, columns_of(ranking));
  const std::string best = ranking.result.layouts.front().grid.to_string();
  out << "\npasses: micro-batches x " << ranking.network.samples
      << " of each; again: blocks run forward again (activation checkpointing)\n"
         "cached: share of the weights gathered over z that stay, in what is left of the memory\n";
  if (!ranking.result.rejections.empty()) out << "not possible: " << rejections_text(ranking) << "\n";
  if (ranking.line.sensitivity) print_sensitivity(out, ranking);
  out << "next: axonn-config explain " << best << ranking.line.repeated() << "\n";
  if (ranking.line.can_be_launched(ranking.network))
    out << "      axonn-config launch " << best << ranking.line.repeated() << " > run.sbatch\n";
}

// Layouts whose values differ by less than the band of the first one of their rank share its rank.
// Bytes are counted, not measured: only equal ones share.
std::vector<size_t> shared_ranks(const Ranking& ranking) {
  const double band = ranking.options.objective == axonn::Objective::memory ? 0 : ranking.machine.band();
  std::vector<size_t> ranks;
  double first = 0;
  for (const PlannedLayout& layout : ranking.result.layouts) {
    const bool shares = !ranks.empty() && (layout.ties_with_previous || layout.value <= first * (1 + band));
    if (!shares) first = layout.value;
    ranks.push_back(shares ? ranks.back() : ranks.size() + 1);
  }
  return ranks;
}

std::string what_if_text(const axonn::SearchOptions& options) {
  std::string text;
  const auto say = [&](bool is, const std::string& words) {
    if (is) text += (text.empty() ? "what if (not with our trainer): " : ", ") + words;
  };
  say(options.stages > 1, std::to_string(options.stages) + " stages of a pipeline, " +
                              std::to_string(options.virtual_stages) +
                              " chunks each; grids, sizes and GPUs are one stage's");
  say(options.sequence_norms, "norms divided over x by rows");
  say(options.divided_gradients, "gradients divided over data");
  say(options.block_messages, "the weights of a block move over z in one message");
  say(options.moment_bytes > 0, "an element of the optimizer's moments needs " + std::to_string(options.moment_bytes) +
                                    (options.moment_bytes > 1 ? " bytes" : " byte"));
  say(options.logits_chunks > 1, "logits in " + std::to_string(options.logits_chunks) + " parts, one after the other");
  say(options.context.ranks > 1,
      "each sequence over " + std::to_string(options.context.ranks) +
          " ranks of z (of data if z = 1), keys and values " +
          (options.context.gathers ? "gathered before attention" : "passed around them beside attention"));
  say(options.checkpointing == axonn::Checkpointing::selective, "only attention runs again");
  say(options.checkpointing == axonn::Checkpointing::stopped, "blocks run again without their last product");
  return text.empty() ? text : text + "\n";
}

std::string band_text(const axonn::Machine& machine) {
  const std::string band = "seconds within " + fixed_text(100 * machine.band(), 0) + "%";
  return band + (machine.error_band > 0 ? " of nine of ten measured runs"
                                        : " at best: no measured run was compared with this machine (see fit)");
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
  if (!line.plot.empty()) write_plot(line.plot, ranking);
  if (!result.layouts.empty()) return 0;
  std::cerr << "axonn-config: " << nothing_text(ranking) << "\n";
  return 1;
}

int run_machine(const PlannerOptions& line) {
  std::cout << axonn::machine_toml(axonn::find_machine(line.machine));
  return 0;
}
