#include "axonn/perfmodel/fit/measured_runs.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/text.hpp"
#include "perfmodel/fit/run_folder.hpp"
#include "perfmodel/fit/run_line.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.runs";
constexpr std::array<std::string_view, 27> kColumns = {
    "grid",         "gpus",        "batch",           "micro_batch",     "seconds",   "tokens_per_second_per_gpu",
    "checkpointed", "layers",      "hidden",          "heads",           "sequence",  "vocabulary",
    "model",        "machine",     "pipeline",        "virtual_stages",  "overlap",   "sequence_norms",
    "accumulation", "mfu_percent", "percent_of_peak", "fused_attention", "precision", "optimizer_schedule",
    "order",        "reduction",   "messages"};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const auto comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

void check_columns(const std::string& place, const std::vector<std::string_view>& columns) {
  for (const std::string_view column : columns) {
    AXONN_CHECK(std::ranges::find(kColumns, column) != kColumns.end(), kWhere, place, ": unknown column '", column, "'",
                did_you_mean(column, kColumns), "; see the columns in docs/planner.md");
    AXONN_CHECK(std::ranges::count(columns, column) == 1, kWhere, place, ": column '", column,
                "' stands twice: remove one");
  }
}

void check_agree(const std::vector<MeasuredRun>& runs) {
  constexpr double kMostRatio = 1.5;
  const auto layout = [](const MeasuredRun& run) {
    const GridShape& grid = run.grid;
    return std::tuple(run.machine.name, run.network.parameters, run.network.tokens_per_sample, grid.x, grid.y, grid.z,
                      grid.data, run.gpus, run.batch, run.micro_batch, run.checkpointing, run.stages,
                      run.sequence_norms, run.block_messages, run.precision, run.schedule, run.order, run.multi_level,
                      to_string(run.overlap));
  };
  std::map<decltype(layout(runs.front())), const MeasuredRun*> first;
  for (const MeasuredRun& run : runs) {
    const MeasuredRun& other = *first.emplace(layout(run), &run).first->second;
    const double ratio = std::max(run.seconds, other.seconds) / std::min(run.seconds, other.seconds);
    AXONN_CHECK(ratio <= kMostRatio, kWhere, other.place, " and ", run.place, " have the same layout and take ",
                other.seconds, " and ", run.seconds, " s: remove the wrong one");
  }
}

}  // namespace

std::vector<MeasuredRun> parse_runs(std::string_view text, const std::string& name, const NetworkModel* network,
                                    const Machine* machine) {
  std::vector<MeasuredRun> runs;
  std::vector<std::string_view> columns;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line[0] == '#') continue;
    const std::string place = detail::concatenate(name, ":", number);
    if (columns.empty()) {
      columns = cells_of(line);
      check_columns(place, columns);
      continue;
    }
    runs.push_back(run_of(RunLine(place, columns, cells_of(line)), network, machine));
  }
  AXONN_CHECK(!runs.empty(), kWhere, name, " has no runs: its first line names columns, each other line is a run");
  check_agree(runs);
  return runs;
}

std::vector<MeasuredRun> read_runs(const std::string& file, const NetworkModel* network, const Machine* machine) {
  if (std::filesystem::is_directory(file)) {
    AXONN_CHECK(network == nullptr, kWhere, file, " is a run, which says its network: give none");
    AXONN_CHECK(machine != nullptr, kWhere, file, ": which machine? give --machine");
    std::vector<MeasuredRun> runs = runs_of_folder(file, *machine);
    check_agree(runs);
    return runs;
  }
  std::ifstream in(file, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", file, ": ", why_not_read(file));
  return parse_runs(std::string(std::istreambuf_iterator<char>(in), {}), file, network, machine);
}

double predicted_seconds(const MeasuredRun& run, const Machine& machine) {
  SearchOptions options = {.gpus = run.gpus / run.stages,
                           .batch_tokens = run.batch * run.network.tokens_per_sample,
                           .order = run.order,
                           .precisions = {run.precision},
                           .checkpointing = run.checkpointing,
                           .norm_rows = run.sequence_norms ? NormRows::on : NormRows::off,
                           .micro_batch = run.micro_batch,
                           .multi_level = run.multi_level,
                           .block_messages = run.block_messages,
                           .stages = run.stages,
                           .virtual_stages = run.virtual_stages,
                           .overlap = run.overlap,
                           .divided_update = run.divided_update,
                           .top = 1};
  if (run.best_grid()) {
    const auto found = search_grids(run.network, machine, options);
    AXONN_CHECK(!found.layouts.empty(), kWhere, run.place, ": no grid of ", run.gpus, " GPUs of ", machine.name,
                " fits: give the right gpus, or the run's grid");
    return found.layouts.front().time.seconds();
  }
  options.memory_margin = 0;
  Machine roomy = machine;
  if (run.micro_batch > 0) roomy.memory_gib = 1e9;
  return plan_grid(run.network, roomy, options, run.grid).time.seconds();
}

}  // namespace axonn
