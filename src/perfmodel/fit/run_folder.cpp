#include "perfmodel/fit/run_folder.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "axonn/config/codecs.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/median.hpp"
#include "axonn/perfmodel/network_file.hpp"
#include "axonn/terms/attention_rows.hpp"
#include "axonn/terms/norm_rows.hpp"
#include "axonn/terms/update_schedule.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "perfmodel.runs";
// The first steps touch memory for the first time, and gather nothing ahead.
constexpr int64_t kWarmUp = 2;
constexpr size_t kLeastSteps = 3;

struct Record {
  std::string place;  // "runs/mine/starts.jsonl:1"
  Json json;
};

std::vector<Record> records_of(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", path,
              ": give the directory of a run of gpt or unet that this version started");
  std::vector<Record> records;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    Json json = is_shallow_json(line) ? Json::parse(line, nullptr, /*allow_exceptions=*/false) : Json();
    const std::string place = detail::concatenate(path, ":", ++number);
    if (json.is_discarded() && in.eof()) break;  // the run is writing it
    AXONN_CHECK(json.is_object() && json.contains("step") && json["step"].is_number_integer(), kWhere, place,
                ": the line is no JSON object with a step: remove it");
    records.push_back({place, std::move(json)});
  }
  return records;
}

// Scalars and lists are written alike in JSON and TOML.
std::string toml_of(const Json& configuration) {
  std::string text;
  for (const auto& [section, keys] : configuration.items()) {
    text += "[" + section + "]\n";
    for (const auto& [key, value] : keys.items()) text.append(key).append(" = ").append(value.dump()).append("\n");
  }
  return text;
}

// The layout of a run, from the trainer's configuration.
struct Layout {
  std::string grid, reduction = "ring";
  AxisOrder order = kDefaultOrder;
  Precision precision = Precision::bf16;
  OverlapSwitches overlap;
  int64_t batch = 0, micro_batch = 0, checkpoint_every = 0, split_forward = 1;
  AttentionRows attention_rows = AttentionRows::off;
  NormRows norm_rows = NormRows::off;
  int64_t context = 1;
};

Layout layout_of(const std::string& toml, const std::string& place) {
  Layout layout;
  OptionTable table;
  table.add("run", "grid", layout.grid, "");
  table.add("run", "order", layout.order, "");
  table.add("run", "dtype", layout.precision, "");
  table.add("overlap", "overlap", layout.overlap, "");
  table.add("overlap", "reduction", layout.reduction, "");
  table.add("overlap", "split_forward", layout.split_forward, "");
  table.add("overlap", "attention_rows", layout.attention_rows, "");
  table.add("overlap", "norm_rows", layout.norm_rows, "");
  table.add("overlap", "context", layout.context, "");
  table.add("train", "batch", layout.batch, "");
  table.add("train", "micro_batch", layout.micro_batch, "");
  table.add("train", "activation_checkpoint", layout.checkpoint_every, "");
  table.read_toml(toml, place,
                  {"run.grid", "run.order", "run.dtype", "overlap.overlap", "overlap.reduction",
                   "overlap.split_forward", "overlap.attention_rows", "overlap.norm_rows", "overlap.context",
                   "train.batch", "train.micro_batch", "train.activation_checkpoint"});
  AXONN_CHECK(layout.reduction == "ring", kWhere, place, ": the run sums gradients by the program '", layout.reduction,
              "', and a fit knows rings only: leave this run out");
  AXONN_CHECK(layout.split_forward == 1, kWhere, place, ": the run splits its forward pass in ", layout.split_forward,
              " parts, and a fit knows whole ones only: leave this run out");
  AXONN_CHECK(layout.attention_rows == AttentionRows::off, kWhere, place,
              ": the run has attention_rows = ", to_string(layout.attention_rows),
              ", and a fit knows off only: leave this run out");
  AXONN_CHECK(layout.context == 1, kWhere, place, ": the run has context = ", layout.context,
              ", and a fit knows 1 only: leave this run out");
  AXONN_CHECK(layout.norm_rows != NormRows::automatic || parse_grid_shape(layout.grid).x == 1, kWhere, place,
              ": the run has norm_rows = auto, and does not say what that was: leave this run out");
  return layout;
}

// Nothing if there are too few steps.
std::optional<MeasuredRun> run_of(const Record& start, int64_t end, const std::vector<Record>& steps,
                                  const Machine& machine) {
  const auto first = start.json["step"].get<int64_t>();
  std::vector<double> seconds;
  std::string schedule;
  for (const Record& step : steps) {
    const auto number = step.json["step"].get<int64_t>();
    if (number <= first + kWarmUp || number > end) continue;
    const auto place = Json::json_pointer("/seconds/step");
    AXONN_CHECK(step.json.contains(place) && step.json[place].is_number() && step.json[place].get<double>() > 0, kWhere,
                step.place, ": 'seconds.step' must be a number above 0");
    seconds.push_back(step.json[place].get<double>());
    schedule = step.json.value("optimizer_schedule", "ar-opt");
  }
  if (seconds.size() < kLeastSteps) return std::nullopt;
  AXONN_CHECK(start.json.contains("configuration") && start.json["configuration"].is_object(), kWhere, start.place,
              ": 'configuration' is missing: remove the line");
  const std::string toml = toml_of(start.json["configuration"]);
  const Layout layout = layout_of(toml, start.place);
  MeasuredRun run = {.place = start.place,
                     .machine = machine,
                     .network = network_model("the network of " + start.place, network_of_toml(toml, start.place)),
                     .grid = parse_grid_shape(layout.grid),
                     .batch = layout.batch,
                     .checkpointing = layout.checkpoint_every > 0 ? Checkpointing::on : Checkpointing::off,
                     .sequence_norms = layout.norm_rows == NormRows::on,
                     .precision = layout.precision,
                     .order = layout.order,
                     .multi_level = false,
                     .schedule = schedule,
                     .divided_update = divides(schedule, "optimizer_schedule"),
                     .overlap = layout.overlap,
                     .seconds = median(seconds)};
  run.gpus = run.grid.ranks();
  const int64_t groups = int64_t{run.grid.z} * run.grid.data;
  run.micro_batch = layout.micro_batch > 0 ? layout.micro_batch : std::max<int64_t>(layout.batch / groups, 1);
  AXONN_CHECK(run.batch % (groups * run.micro_batch) == 0, kWhere, start.place, ": a batch of ", run.batch,
              " must divide by z x data x micro_batch = ", groups * run.micro_batch);
  return run;
}

}  // namespace

std::vector<MeasuredRun> runs_of_folder(const std::string& folder, const Machine& machine) {
  const std::vector<Record> starts = records_of(folder, "starts.jsonl"), steps = records_of(folder, "metrics.jsonl");
  std::vector<MeasuredRun> runs;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t end =
        i + 1 < starts.size() ? starts[i + 1].json["step"].get<int64_t>() : std::numeric_limits<int64_t>::max();
    if (auto run = run_of(starts[i], end, steps, machine)) runs.push_back(std::move(*run));
  }
  AXONN_CHECK(!runs.empty(), kWhere, folder, " has no start with ", kWarmUp + static_cast<int64_t>(kLeastSteps),
              " steps: train longer");
  return runs;
}

}  // namespace axonn
