#include "comm/watch/rank_runs.hpp"

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int kAllNamed = 4;      // in a run
constexpr size_t kMostParts = 8;  // in a text

}  // namespace

RankRuns::RankRuns(std::span<const int> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    Run* const last = runs_.empty() ? nullptr : &runs_.back();
    if (last != nullptr && last->count == 1) {
      last->stride = ranks[i] - last->first;
      last->count = 2;
    } else if (last != nullptr && ranks[i] == last->first + last->count * last->stride) {
      ++last->count;
    } else {
      runs_.push_back({.first = ranks[i]});
    }
  }
}

std::vector<int> RankRuns::ranks() const {
  std::vector<int> result;
  for (const Run& run : runs_)
    for (int i = 0; i < run.count; ++i) result.push_back(run.first + i * run.stride);
  return result;
}

bool RankRuns::within(int ranks) const {
  const auto exists = [ranks](int64_t rank) { return rank >= 0 && rank < ranks; };
  int64_t count = 0;
  for (const Run& run : runs_) {
    if (run.count < 1 || !exists(run.first) || !exists(run.first + (run.count - int64_t{1}) * run.stride)) return false;
    count += run.count;
  }
  return count <= ranks;
}

std::string RankRuns::text() const {
  std::vector<std::string> parts;
  for (const Run& run : runs_) {
    const auto rank = [&](int i) { return std::to_string(run.first + i * run.stride); };
    if (run.count <= kAllNamed) {
      for (int i = 0; i < run.count; ++i) parts.push_back(rank(i));
    } else if (run.stride == 1) {
      parts.push_back(rank(0) + " to " + rank(run.count - 1));
    } else {
      parts.push_back(rank(0) + ", " + rank(1) + ", ... " + rank(run.count - 1));
    }
  }
  std::string text = runs_.size() == 1 && runs_[0].count == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == kMostParts) return text + detail::concatenate(" and others, ", ranks().size(), " in all");
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

void to_json(nlohmann::json& json, const RankRuns& runs) {
  json = nlohmann::json::array();
  for (const auto& run : runs.runs_) json.push_back({run.first, run.count, run.stride});
}

void from_json(const nlohmann::json& json, RankRuns& runs) {
  for (const auto& run : json) runs.runs_.push_back({run.at(0), run.at(1), run.at(2)});
}

}  // namespace axonn
