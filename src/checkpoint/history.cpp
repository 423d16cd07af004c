#include "axonn/checkpoint/history.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <ranges>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/core/error.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "checkpoint.history";
constexpr std::string_view kLeft = "after-", kPartial = ".partial";

// Objects of starts.jsonl, the oldest first; none if the run has no such file.
std::vector<nlohmann::json> starts_of(const fs::path& run) {
  std::vector<nlohmann::json> starts;
  if (!fs::exists(run / "starts.jsonl")) return starts;
  std::istringstream lines(disk::read_text(run / "starts.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto start = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (start.is_object()) starts.push_back(std::move(start));
  }
  return starts;
}

std::string text_in(const nlohmann::json& start, const char* key) {
  const auto found = start.find(key);
  return found != start.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The starts of a run, and the steps that each has kept: those up to where the next one began.
// Without any line, whatever lies there is taken for its history.
class Starts {
 public:
  explicit Starts(const fs::path& run) {
    int64_t kept = std::numeric_limits<int64_t>::max();
    for (const auto& start : std::views::reverse(starts_of(run))) {
      last_step_.emplace(text_in(start, "start"), kept);
      if (const auto step = start.find("step"); step != start.end() && step->is_number_integer()) kept = *step;
    }
  }
  bool lists(const CheckpointState& state) const {
    return last_step_.empty() || state.start.empty() || last_step_.contains(state.start);
  }
  // The step at which the run went back over this checkpoint and on without it.
  std::optional<int64_t> left_at(const CheckpointState& state) const {
    const auto found = last_step_.find(state.start);
    if (state.start.empty() || found == last_step_.end() || state.step <= found->second) return std::nullopt;
    return found->second;
  }
  bool may_have_saved(const CheckpointState& state) const { return lists(state) && !left_at(state); }
  bool may_have_saved(const fs::path& step_directory) const {
    if (last_step_.empty()) return true;
    try {
      return may_have_saved(read_manifest(step_directory).state);
    } catch (const UserError&) {  // whoever reads it says so
      return true;
    }
  }

 private:
  std::map<std::string, int64_t> last_step_;
};

// N of "after-step-N.partial".
std::optional<int64_t> unfinished_leave(const std::string& name) {
  if (!name.starts_with(kLeft) || !name.ends_with(kPartial)) return std::nullopt;
  const auto step = parse_step_name(name.substr(kLeft.size()));
  return step ? std::optional(step->step) : std::nullopt;
}

std::vector<int64_t> unfinished_leaves(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const auto& entry : fs::directory_iterator(run))
    if (const auto step = unfinished_leave(entry.path().filename().string())) steps.push_back(*step);
  return steps;
}

// Later steps are no checkpoints of this run.
int64_t last_step_of(const fs::path& run) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const int64_t step : unfinished_leaves(run)) last = std::min(last, step);
  return last;
}

std::vector<CheckpointStep> finished_steps(const fs::path& run) {
  std::vector<CheckpointStep> steps;
  for (const auto& entry : fs::directory_iterator(run)) {
    const auto name = parse_step_name(entry.path().filename().string());
    if (!name || !entry.is_directory() || name->suffix == kPartial) continue;
    // An `.old` checkpoint is valid until its successor is in place.
    if (name->suffix == ".old" && fs::exists(run / step_name(name->step))) continue;
    steps.push_back({name->step, entry.path()});
  }
  std::ranges::sort(steps, {}, &CheckpointStep::step);
  return steps;
}

std::string left_name(int64_t step) { return std::string(kLeft) + step_name(step); }

void copy_text(const fs::path& from, const fs::path& to) {
  if (!fs::exists(from) || fs::exists(to)) return;
  disk::replace_synced(to, disk::read_text(from));
}

// Files of later steps, "step-000500.png" or the like.
void move_samples(const fs::path& run, const fs::path& left, int64_t step) {
  if (!fs::is_directory(run / "samples")) return;
  std::vector<fs::path> later;
  for (const auto& entry : fs::directory_iterator(run / "samples")) {
    const auto name = parse_step_name(entry.path().stem().string());
    if (name && name->step > step) later.push_back(entry.path());
  }
  if (!later.empty()) fs::create_directories(left / "samples");
  for (const fs::path& file : later) fs::rename(file, left / "samples" / file.filename());
}

// The newest step goes first, so whatever is left here at any time is whole up to its newest step.
fs::path complete_leave(const fs::path& run, int64_t step) {
  const fs::path left = run / (left_name(step) + std::string(kPartial));
  for (const char* name : {"metrics.jsonl", "starts.jsonl", "config.toml", "environment.json"})
    copy_text(run / name, left / name);
  auto steps = finished_steps(run);
  std::ranges::reverse(steps);
  for (const CheckpointStep& later : steps)
    if (later.step > step) fs::rename(later.directory, left / later.directory.filename());
  move_samples(run, left, step);
  disk::sync_directory(left);
  fs::path whole = run / left_name(step);
  for (int number = 2; fs::exists(whole); ++number) whole = run / (left_name(step) + "-" + std::to_string(number));
  fs::rename(left, whole);
  disk::sync_directory(run);
  return whole;
}

fs::path folder_of(const fs::path& step_directory) { return fs::canonical(step_directory).parent_path(); }

}  // namespace

std::vector<CheckpointStep> checkpoints_in(const fs::path& run_directory) {
  if (!fs::is_directory(run_directory)) return {};
  auto steps = finished_steps(run_directory);
  const int64_t last = last_step_of(run_directory);
  std::erase_if(steps, [&](const CheckpointStep& step) { return step.step > last; });
  return steps;
}

std::vector<CheckpointStep> history_in(const fs::path& run_directory) {
  auto steps = checkpoints_in(run_directory);
  if (steps.empty()) return steps;
  const Starts starts(run_directory);
  std::erase_if(steps, [&](const CheckpointStep& step) { return !starts.may_have_saved(step.directory); });
  return steps;
}

bool is_of_history(const fs::path& run_directory, const CheckpointState& state) {
  return Starts(run_directory).may_have_saved(state);
}

void check_of_history(const fs::path& step_directory, const CheckpointState& state) {
  const fs::path run = folder_of(step_directory);
  const std::string name = step_directory.string(), branch = "--out DIR begins a run of its own from it";
  const std::string listed = (run / "starts.jsonl").string();
  const Starts starts(run);
  AXONN_CHECK(starts.lists(state), kWhere, name, " was saved in another run's directory and copied here: ", listed,
              " does not list the start ", state.start, " that saved it; ", branch);
  const auto left_at = starts.left_at(state);
  AXONN_CHECK(!left_at, kWhere, name, " is of a history that the run has left, and was put back: as ", listed,
              " tells, the run went back to step ", left_at.value_or(0), " and on from there; ", branch);
  const auto named = parse_step_name(fs::canonical(step_directory).filename().string());
  AXONN_CHECK(!named || named->step == state.step, kWhere, name, " holds step ", state.step,
              ", so it was renamed; call it ", step_name(state.step));
  AXONN_CHECK(state.step <= last_step_of(run), kWhere, name, " is of a history that the run was leaving for step ",
              last_step_of(run), " when it was killed; resume the run's directory first, or ", branch);
}

std::optional<fs::path> branched_from(const fs::path& run_directory) {
  if (!fs::is_directory(run_directory) || !checkpoints_in(run_directory).empty()) return std::nullopt;
  const auto starts = starts_of(run_directory);
  if (starts.empty()) return std::nullopt;
  const fs::path from = text_in(starts.back(), "from");
  return from.is_absolute() ? std::optional(from) : std::nullopt;
}

std::optional<fs::path> leave_after(const fs::path& run_directory, int64_t step) {
  if (!fs::is_directory(run_directory)) return std::nullopt;
  std::optional<fs::path> left;
  for (const int64_t unfinished : unfinished_leaves(run_directory)) left = complete_leave(run_directory, unfinished);
  const auto steps = finished_steps(run_directory);
  if (steps.empty() || steps.back().step <= step) return left;
  fs::create_directory(run_directory / (left_name(step) + std::string(kPartial)));
  disk::sync_directory(run_directory);
  return complete_leave(run_directory, step);
}

std::vector<fs::path> left_histories(const fs::path& run_directory) {
  std::vector<fs::path> found;
  const std::string prefix = std::string(kLeft) + "step-";
  for (const auto& entry : fs::directory_iterator(run_directory))
    if (entry.is_directory() && entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace axonn
