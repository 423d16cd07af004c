#include "report_data.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/utf8.hpp>
#include <axonn/core/version.hpp>

#include "run/run_record.hpp"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostDrawn = 16;
constexpr int64_t kBinsOfAll = 4096, kMostBins = 1024, kLeastBins = 256;

struct NamedRun {
  std::string directory, name;
};

// The last part of its path, or the whole path if two have the same last part.
std::vector<NamedRun> named_runs(const std::vector<std::string>& directories) {
  std::set<fs::path> seen;
  std::vector<NamedRun> runs;
  std::map<std::string, int> with_name;
  for (const std::string& directory : directories) {
    std::error_code absent;
    fs::path place = fs::canonical(directory, absent);
    if (absent) place = directory;
    if (!seen.insert(place).second) continue;
    runs.push_back({directory, axonn::shown_name(place.filename().native())});
    ++with_name[runs.back().name];
  }
  for (NamedRun& run : runs)
    if (with_name[run.name] > 1 || run.name.empty()) run.name = axonn::shown_name(run.directory);
  return runs;
}

// null: it has none, or is no object.
Json member_of(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() ? *found : Json();
}

Json some_of(const Json& object, std::initializer_list<const char*> keys) {
  Json some = Json::object();
  for (const char* key : keys)
    if (Json member = member_of(object, key); !member.is_null()) some[key] = std::move(member);
  return some;
}

// The configurations of the newest starts are compared. Of several hosts the page says how many.
void shorten_drawn(Json& run) {
  Json& starts = run["starts"];
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i].erase("choices");
    if (i + 1 < starts.size()) starts[i].erase("configuration");
    const Json hosts = member_of(member_of(starts[i], "environment"), "hosts");
    if (hosts.is_array() && hosts.size() > 1) starts[i]["environment"]["hosts"] = hosts.size();
  }
}

// A row of the table, COLUMNS in report.js: there may be thousands.
void shorten_row(Json& run) {
  Json& starts = run["starts"];
  if (!starts.empty()) {
    Json newest = some_of(starts.back(), {"ranks"});
    newest["environment"] = some_of(member_of(starts.back(), "environment"), {"grid"});
    newest["configuration"]["train"] =
        some_of(member_of(member_of(starts.back(), "configuration"), "train"), {"steps"});
    starts = Json::array({std::move(newest)});
  }
  Json& metrics = run["metrics"];
  metrics["axes"] = Json::object();
  metrics["curves"] = some_of(metrics["curves"], {"loss", "validation_loss", "tokens_per_second", "images_per_second",
                                                  "utilisation", "hidden_share", "peak_memory_bytes"});
  run["stragglers"] = Json::array();
}

std::string time_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

Json report_data(const std::vector<std::string>& directories) {
  const std::vector<NamedRun> named = named_runs(directories);
  Json runs = Json::array(), notes = Json::array();
  const auto drawn = static_cast<int64_t>(std::min(named.size(), kMostDrawn));
  const ReadingLimits whole{.bins = std::clamp(kBinsOfAll / drawn, kLeastBins, kMostBins)},
      summary{.bins = 1, .samples = 0};
  for (const auto& [directory, name] : named) {
    const bool is_drawn = runs.size() < kMostDrawn;
    try {
      Json run = read_run(directory, name, is_drawn ? whole : summary);
      run["drawn"] = is_drawn;
      if (is_drawn)
        shorten_drawn(run);
      else
        shorten_row(run);
      runs.push_back(std::move(run));
    } catch (const axonn::UserError& error) {
      if (named.size() == 1) throw;
      notes.push_back(error.sentence());
    }
  }
  AXONN_CHECK(!runs.empty(), "axonn_report.data", "none of ", named.size(),
              " directories can be read; the first: ", notes.front().get<std::string>());
  if (runs.size() > kMostDrawn)
    notes.push_back("curves and samples are those of the first " + std::to_string(kMostDrawn) + " of " +
                    std::to_string(runs.size()) + " runs; name fewer to see those of others");
  return {{"program", "axonn-report " + std::string(axonn::version())},
          {"time", time_text()},
          {"notes", std::move(notes)},
          {"runs", std::move(runs)}};
}
