#include "perfmodel/fit/run_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <variant>

#include "axonn/config/codecs.hpp"
#include "axonn/core/error.hpp"
#include "axonn/perfmodel/network_file.hpp"
#include "axonn/terms/update_schedule.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.runs";
constexpr std::array<std::string_view, 5> kSizes = {"layers", "hidden", "heads", "sequence", "vocabulary"};

// The network of one stage of the pipeline. Nothing if the line describes no network.
std::optional<NetworkModel> network_of(const RunLine& line, int64_t stages) {
  const bool any = std::ranges::any_of(kSizes, [&](std::string_view size) { return line.find(size).has_value(); });
  if (!any && !line.find("model")) return std::nullopt;
  NetworkShape shape = any ? NetworkShape(DecoderShape{.layers = line.whole("layers"),
                                                       .hidden = line.whole("hidden"),
                                                       .heads = line.whole("heads"),
                                                       .sequence = line.whole("sequence"),
                                                       .vocabulary = line.whole("vocabulary"),
                                                       .tied_head = true})
                           : find_network(std::string(line.text("model")));
  if (stages > 1) {
    auto* decoder = std::get_if<DecoderShape>(&shape);
    AXONN_CHECK(decoder != nullptr && decoder->layers % stages == 0, kWhere, line.place(), ": ", stages,
                " stages of a pipeline must divide the layers of a transformer");
    decoder->layers /= stages;
  }
  return network_model("the network of " + line.place(), shape);
}

// All zero: the best grid.
GridShape grid_of(const RunLine& line, int64_t gpus) {
  if (const auto grid = line.find("grid"))
    return *grid == "best" ? GridShape{.x = 0, .y = 0, .z = 0, .data = 0} : parse_grid_shape(*grid);
  return {.z = static_cast<int>(gpus)};
}

int64_t gpus_of(const RunLine& line) {
  constexpr int64_t kMostGpus = 1 << 20;
  if (const auto grid = line.find("grid"); grid && *grid != "best") return parse_grid_shape(*grid).ranks();
  const int64_t gpus = line.whole("gpus");
  AXONN_CHECK(gpus <= kMostGpus, kWhere, line.place(), ": 'gpus' must be at most ", kMostGpus, ", got ", gpus);
  return gpus;
}

Checkpointing checkpointing_of(const RunLine& line) {
  const std::string_view word = line.find("checkpointed").value_or("0");
  if (word == "0" || word == "1") return word == "1" ? Checkpointing::on : Checkpointing::off;
  AXONN_CHECK(word == "selective" || word == "stopped", kWhere, line.place(),
              ": 'checkpointed' must be 0, 1, selective or stopped, got '", word, "'");
  return word == "selective" ? Checkpointing::selective : Checkpointing::stopped;
}

// Seconds by the one column that says how fast the run was.
double seconds_of(const RunLine& line, const MeasuredRun& run) {
  if (line.find("seconds")) return line.number("seconds");
  const auto tokens = static_cast<double>(run.batch * run.network.tokens_per_sample);
  const double each = tokens / static_cast<double>(run.gpus);
  if (line.find("tokens_per_second_per_gpu")) return each / line.number("tokens_per_second_per_gpu");
  AXONN_CHECK(line.find("percent_of_peak"), kWhere, line.place(),
              ": column 'seconds' is missing: give it, or tokens_per_second_per_gpu, or percent_of_peak");
  const double share = line.number("percent_of_peak") / 100;
  const Recomputation again = run.checkpointing == Checkpointing::off ? Recomputation::none : Recomputation::blocks;
  return each * hardware_flops_per_token(run.network.layers, again) / (share * run.machine.peak_flops(run.precision));
}

// Whether the weights of a block move over Z in one message.
bool sends_blocks(const RunLine& line, bool other_program) {
  const auto word = line.find("messages");
  if (!word) return other_program;
  AXONN_CHECK(*word == "blocks" || *word == "weights", kWhere, line.place(),
              ": 'messages' must be blocks or weights, got '", *word, "'");
  return *word == "blocks";
}

// Without a fused kernel the scores of a token go through memory: written, read and written by the
// softmax and by its dropout, and read.
void add_scores(LayerTable& layers, int64_t scores) {
  for (LayerWork& layer : layers)
    if (layer.flops > 0 && !layer.has_weight()) layer.elements += 6 * static_cast<double>(scores);
}

}  // namespace

RunLine::RunLine(std::string place, const std::vector<std::string_view>& columns,
                 const std::vector<std::string_view>& cells)
    : place_(std::move(place)) {
  AXONN_CHECK(cells.size() == columns.size(), kWhere, place_, ": the line has ", cells.size(), " cells, need ",
              columns.size(), " as its head has");
  for (size_t i = 0; i < cells.size(); ++i) cells_[columns[i]] = cells[i];
}

std::optional<std::string_view> RunLine::find(std::string_view column) const {
  const auto found = cells_.find(column);
  return found == cells_.end() ? std::nullopt : std::optional(found->second);
}

std::string_view RunLine::text(std::string_view column) const {
  const auto found = find(column);
  AXONN_CHECK(found, kWhere, place_, ": column '", column, "' is missing: give it");
  return *found;
}

double RunLine::number(std::string_view column) const {
  const std::string_view cell = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool read = error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value);
  AXONN_CHECK(read && value > 0, kWhere, place_, ": '", column, "' must be a number above 0, got '", cell, "'");
  return value;
}

int64_t RunLine::whole(std::string_view column, int64_t least) const {
  constexpr int64_t kMost = int64_t{1} << 40;
  const std::string_view cell = text(column);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool read = error == std::errc() && end == cell.data() + cell.size();
  AXONN_CHECK(read && value >= least && value <= kMost, kWhere, place_, ": '", column, "' must be a whole number from ",
              least, " to ", kMost, ", got '", cell, "'");
  return value;
}

MeasuredRun run_of(const RunLine& line, const NetworkModel* network, const Machine* machine) {
  const int64_t stages = line.find("pipeline") ? line.whole("pipeline") : 1;
  auto own = network_of(line, stages);
  AXONN_CHECK(own || network != nullptr, kWhere, line.place(),
              ": which network? give --model, or columns layers, hidden, heads, sequence and vocabulary");
  AXONN_CHECK(machine != nullptr || line.find("machine"), kWhere, line.place(),
              ": which machine? give --machine, or a column machine");
  MeasuredRun run = {.place = line.place(),
                     .machine = machine != nullptr ? *machine : find_machine(std::string(line.text("machine"))),
                     .network = own ? std::move(*own) : *network,
                     .gpus = gpus_of(line),
                     .batch = line.whole("batch"),
                     .micro_batch = line.find("micro_batch") ? line.whole("micro_batch") : 0,
                     .checkpointing = checkpointing_of(line),
                     .stages = stages};
  run.grid = grid_of(line, run.gpus);
  run.gpus *= run.best_grid() ? 1 : stages;
  if (line.find("virtual_stages")) run.virtual_stages = line.whole("virtual_stages");
  run.sequence_norms = line.find("sequence_norms") && line.whole("sequence_norms", 0) != 0;
  run.overlap.cache = run.best_grid();
  const std::string_view overlap = line.find("overlap").value_or("1");
  if (overlap != "1")
    run.overlap =
        overlap == "0" ? OverlapSwitches::none() : Codec<OverlapSwitches>::parse(overlap, line.place() + ": overlap");
  run.block_messages = sends_blocks(line, !run.best_grid() && (overlap == "0" || overlap == "1"));
  if (const auto word = line.find("precision"))
    run.precision = parse_name<Precision>(*word, line.place() + ": precision");
  if (const auto word = line.find("reduction")) {
    AXONN_CHECK(*word == "ring" || *word == "levels", kWhere, line.place(),
                ": 'reduction' must be ring or levels, got '", *word, "'");
    run.multi_level = *word == "levels";
  }
  if (const auto order = line.find("order")) run.order = parse_axis_order(*order);
  if (const auto word = line.find("optimizer_schedule")) {
    run.schedule = *word;
    run.divided_update = divides(run.schedule, line.place() + ": optimizer_schedule");
  }
  const int64_t ranks =
      run.best_grid() ? 1 : int64_t{run.grid.z} * run.grid.data * std::max<int64_t>(run.micro_batch, 1);
  AXONN_CHECK(run.batch % ranks == 0, kWhere, line.place(), ": a batch of ", run.batch, " ", run.network.samples,
              " must divide by z x data x micro_batch = ", ranks);
  run.seconds = seconds_of(line, run);
  if (line.find("fused_attention") && line.whole("fused_attention", 0) == 0)
    add_scores(run.network.layers, line.whole("heads") * line.whole("sequence"));
  return run;
}

}  // namespace axonn
