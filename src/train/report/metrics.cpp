#include "train/report/metrics.hpp"

#include <cerrno>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

struct KeptLines {
  std::string text;
  LeastLosses least;
};

std::optional<double> number_in(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

// The lines up to and including `step`. A line that is not a record of a step was half written.
KeptLines lines_up_to(const std::string& text, int64_t step) {
  std::istringstream in(text);
  KeptLines kept;
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool is_record = record.is_object() && record.contains("step") && record["step"].is_number_integer();
    if (!is_record || record["step"].get<int64_t>() > step) continue;
    kept.text += line + "\n";
    kept.least.add(number_in(record, "loss"), number_in(record, "validation_loss"));
  }
  return kept;
}

LeastLosses cut_off(const fs::path& path, int64_t step) {
  const std::string text = disk::read_text(path);
  KeptLines kept = lines_up_to(text, step);
  if (kept.text == text && fs::hard_link_count(path) == 1)
    return kept.least;  // a copy by hard links gets a file of its own
  disk::replace_synced(path, kept.text);
  return kept.least;
}

}  // namespace

std::string StepMetrics::to_json() const {
  nlohmann::ordered_json line = {{"step", step}, {std::string(terms), tokens}};
  const auto put = [&](const char* key, const auto& value) {
    if (value) line[key] = *value;
  };
  put("epoch", epoch);
  line["loss"] = loss;
  put("validation_loss", validation_loss);
  put("validation_bits_per_byte", bits_per_byte);
  put("gradient_norm", gradient_norm);
  put("loss_scale", loss_scale);
  put("skipped_steps", skipped_steps);
  put("spikes", spikes);
  line["learning_rate"] = learning_rate;
  line[std::string(terms) + "_per_second"] = tokens_per_second;
  line["model_flops_per_second"] = model_flops_per_second;
  line["paper_flops_per_second"] = paper_flops_per_second;
  put("utilisation", utilisation);
  put("hidden_share", hidden());
  put("peak_memory_bytes", peak_memory_bytes);
  line["seconds"] = {{"step", seconds.step},
                     {"forward", seconds.forward},
                     {"backward", seconds.backward},
                     {"communication_exposed", seconds.communication_exposed},
                     {"optimizer", seconds.optimizer},
                     {"checkpoint", seconds.checkpoint},
                     {"validation", seconds.validation},
                     {"run", seconds.run}};
  for (size_t kind = 0; kind < kTrafficNames.size(); ++kind) {
    const TrafficSum& sum = communication[kind];
    if (sum.collectives == 0) continue;
    line["communication"][kTrafficNames[kind]] = {{"collectives", sum.collectives},
                                                  {"bytes", sum.bytes},
                                                  {"exposed_seconds", sum.exposed_seconds},
                                                  {"hidden_seconds", sum.hidden_seconds}};
  }
  for (const auto& [schedule, count] : with_names(linear_products)) line["linear_products"][schedule] = count;
  line["optimizer_schedule"] = optimizer_schedule;
  if (!optimizer_settings.empty()) line["optimizer_settings"] = optimizer_settings;
  put("straggler", straggler);
  return line.dump();
}

std::optional<double> StepMetrics::hidden() const {
  double beside = 0, all = 0;
  for (const TrafficSum& sum : communication) {
    beside += sum.hidden_seconds;
    all += sum.hidden_seconds + sum.exposed_seconds;
  }
  return all > 0 ? std::optional(beside / all) : std::nullopt;
}

MetricsWriter::MetricsWriter(fs::path path, std::optional<int64_t> resumed_step) : path_(std::move(path)) {
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  const bool holds_lines = fs::exists(path_) && fs::file_size(path_) > 0;
  AXONN_CHECK(!holds_lines || resumed_step, "train.metrics", path_.string(),
              " holds the metrics of another run and is not overwritten; choose another directory, or resume that run");
  if (holds_lines) kept_ = cut_off(path_, *resumed_step);
  out_.open(path_, std::ios::app | std::ios::binary);
  AXONN_CHECK(out_, "train.metrics", "cannot write ", path_.string(), ": ", reason_and_cure(errno));
}

void MetricsWriter::write(const std::string& line) {
  out_ << line + "\n" << std::flush;
  if (!out_) throw BackendError("train.metrics", "cannot write " + path_.string() + ": " + reason_and_cure(errno));
}

}  // namespace axonn
