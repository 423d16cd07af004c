#include "run/run_record.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/json/json_depth.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/utf8.hpp>

#include "run/metric_curves.hpp"
#include "run/run_samples.hpp"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostStragglers = 20;

Json object_of(const std::string& text) {
  Json object = axonn::is_shallow_json(text) ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
  return object.is_object() ? object : Json::object();
}

std::string text_of(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return "";
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string count_text(int64_t count, const char* one, const char* more) {
  return std::to_string(count) + " " + (count == 1 ? one : more);
}

// Reads metrics.jsonl line by line.
class MetricsReading {
 public:
  explicit MetricsReading(int64_t bins) : curves_(bins) {}

  void read(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      if (in.eof()) break;  // without its end: it is being written, or the run was killed
      add(line);
    }
  }
  Json into(Json run) {
    run["metrics"] = curves_.json();
    run["steps"] = curves_.last_step();
    run["stragglers"] = std::move(stragglers_);
    if (no_records_ > 0)
      run["problems"].push_back(count_text(no_records_, "line of metrics.jsonl is", "lines of metrics.jsonl are") +
                                " no record of a step; left out");
    if (out_of_order_ > 0)
      run["problems"].push_back(
          count_text(out_of_order_, "line of metrics.jsonl comes", "lines of metrics.jsonl come") +
          " after a later step; left out");
    return run;
  }

 private:
  void add(const std::string& line) {
    const auto numbers = axonn::json_numbers(line);
    const int64_t step = numbers ? step_in(*numbers) : 0;
    if (step == 0) {
      ++no_records_;
    } else if (step <= curves_.last_step()) {
      ++out_of_order_;
    } else {
      curves_.add(step, *numbers);
      note_straggler(step, line);
    }
  }

  // 0: none. Doubles have every whole number up to the limit.
  static int64_t step_in(const axonn::NamedNumbers& numbers) {
    constexpr double kMost = 9007199254740992;
    for (const auto& [key, number] : numbers)
      if (key == "step" && number >= 1 && number <= kMost) return static_cast<int64_t>(number);
    return 0;
  }

  void note_straggler(int64_t step, const std::string& line) {
    if (line.find("\"straggler\"") == std::string::npos) return;
    const Json record = object_of(line);
    const auto found = record.find("straggler");
    if (found == record.end() || !found->is_string()) return;
    if (stragglers_.size() == kMostStragglers) stragglers_.erase(size_t{0});
    stragglers_.push_back(Json{{"step", step}, {"text", *found}});
  }

  MetricCurves curves_;
  Json stragglers_ = Json::array();
  int64_t no_records_ = 0, out_of_order_ = 0;
};

Json starts_of(const fs::path& directory, Json& problems) {
  const fs::path file = directory / "starts.jsonl";
  Json starts = Json::array();
  const std::string text = text_of(file);
  if (text.empty()) problems.push_back("there is no starts.jsonl, so its settings and restarts are not known");
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (Json start = object_of(text.substr(begin, end - begin)); !start.empty()) starts.push_back(std::move(start));
    begin = end + 1;
  }
  return starts;
}

void check_directory(const fs::path& directory) {
  const fs::path metrics = directory / "metrics.jsonl";
  const std::string shown = axonn::shown_name(directory.native());
  std::error_code refused;
  AXONN_CHECK(fs::is_directory(directory, refused), "axonn_report.run", shown,
              " is no directory that can be read; name the directory of a run, such as runs/a");
  AXONN_CHECK(fs::is_regular_file(metrics, refused), "axonn_report.run", shown,
              " has no metrics.jsonl; name the directory of a run, such as runs/a");
}

}  // namespace

Json read_run(const std::string& directory, const std::string& name, const ReadingLimits& limits) {
  check_directory(directory);
  const fs::path folder = directory;
  std::ifstream in(folder / "metrics.jsonl", std::ios::binary);
  AXONN_CHECK(in, "axonn_report.run", "cannot read ", axonn::shown_name((folder / "metrics.jsonl").native()), ": ",
              axonn::reason_and_cure(errno));
  Json run = {{"name", name}, {"directory", axonn::shown_name(directory)}, {"problems", Json::array()}};
  run["status"] = object_of(text_of(folder / "status.json"));
  run["starts"] = starts_of(folder, run["problems"]);
  MetricsReading reading(limits.bins);
  reading.read(in);
  run = reading.into(std::move(run));
  run["samples"] = samples_of(folder / "samples", limits.samples);
  return run;
}

bool is_running(const Json& run) {
  const Json& status = run["status"];
  const auto state = status.find("state");
  return state != status.end() && state->is_string() && state->get<std::string>() == "running";
}
