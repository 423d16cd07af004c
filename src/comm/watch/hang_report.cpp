#include "comm/watch/hang_report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr size_t kMostHistories = 4;  // ranks that others wait for
constexpr size_t kMostCalls = 8;

// A call that some ranks have made and wait in.
struct Stuck {
  const HangState::Open* open = nullptr;  // as one of them describes it
  std::vector<int> waiting, missing;
  bool root = false;  // a missing rank is not itself kept by others
};

class Job {
 public:
  Job(const std::vector<HangState>& states, int ranks) : states_(static_cast<size_t>(ranks)) {
    for (const HangState& state : states) states_.at(static_cast<size_t>(state.rank)) = &state;
    for (int rank = 0; rank < ranks; ++rank)
      if (state(rank) == nullptr) silent_.push_back(rank);
    collect(states);
  }

  // nullptr: it did not answer.
  const HangState* state(int rank) const { return states_[static_cast<size_t>(rank)]; }
  const std::vector<int>& silent() const { return silent_; }
  const std::vector<Stuck>& stuck() const { return stuck_; }  // roots first
  bool waits(int rank) const { return state(rank) != nullptr && state(rank)->waits; }

 private:
  // Groups without a common rank may have the same channel.
  using Key = std::tuple<uint32_t, std::string, int64_t, std::string, int>;

  void collect(const std::vector<HangState>& states) {
    std::map<Key, Stuck> by_call;
    for (const HangState& state : states)
      for (const HangState::Open& open : state.open) {
        const int alone = open.call.point_to_point() ? state.rank : -1;
        Stuck& stuck = by_call[{open.call.channel, open.members.text(), open.call.number, open.call.collective, alone}];
        stuck.open = &open;
        stuck.waiting.push_back(state.rank);
      }
    std::set<int> kept;
    for (auto& [key, stuck] : by_call) {
      find_missing(stuck);
      std::ranges::sort(stuck.waiting);
      if (!stuck.missing.empty()) kept.insert(stuck.waiting.begin(), stuck.waiting.end());
    }
    for (auto& [key, stuck] : by_call) {
      stuck.root = std::ranges::any_of(stuck.missing, [&](int rank) { return !waits(rank) || !kept.contains(rank); });
      stuck_.push_back(std::move(stuck));
    }
    std::ranges::stable_sort(stuck_, {}, [](const Stuck& stuck) {
      return std::tuple(!stuck.root, stuck.missing.empty(), stuck.open->call.called);
    });
  }

  void find_missing(Stuck& stuck) const {
    const CallRecord& call = stuck.open->call;
    if (call.point_to_point()) {
      if (stuck.open->waits_for >= 0) stuck.missing = {stuck.open->waits_for};
      return;
    }
    for (const int member : stuck.open->members.ranks()) {
      const HangState* const other = member < static_cast<int>(states_.size()) ? state(member) : nullptr;
      const auto last =
          other == nullptr ? decltype(other->last_numbers.end()){} : other->last_numbers.find(call.channel);
      if (other == nullptr || last == other->last_numbers.end() || last->second < call.number)
        stuck.missing.push_back(member);
    }
  }

  std::vector<const HangState*> states_;
  std::vector<int> silent_;
  std::vector<Stuck> stuck_;
};

std::string is_or_are(const std::vector<int>& ranks, const char* one, const char* several) {
  return RankRuns(ranks).text() + (ranks.size() == 1 ? one : several);
}

std::string silent_text(const std::vector<int>& ranks) {
  return is_or_are(ranks, " does not answer: it is stopped, or its host is gone",
                   " do not answer: they are stopped, or their hosts are gone");
}

std::string why_missing(const Job& job, const Stuck& stuck) {
  std::vector<int> silent, busy;
  for (const int rank : stuck.missing) {
    if (job.state(rank) == nullptr)
      silent.push_back(rank);
    else
      busy.push_back(rank);
  }
  std::string text;
  if (!busy.empty())
    text += stuck.open->call.point_to_point() ? "it waits for " + RankRuns(busy).text()
            : stuck.open->call.on_device()
                ? is_or_are(busy, "'s device has not come to it", " have devices that have not come to it")
                : is_or_are(busy, " has not called it", " have not called it");
  if (!silent.empty()) text += (text.empty() ? "" : ", and ") + silent_text(silent);
  return text;
}

std::string headline_of(const Job& job, int64_t limit_seconds) {
  const Stuck& first = job.stuck().front();
  const std::string begin =
      first.open->call.text() + detail::concatenate(" made no progress for ", limit_seconds, " s");
  if (first.root) return begin + ": " + why_missing(job, first);
  if (!first.missing.empty()) {
    std::string text = begin + ": the ranks wait for each other, in calls of different orders: ";
    for (size_t i = 0; i < std::min<size_t>(2, job.stuck().size()); ++i)
      text +=
          (i == 0 ? "" : ", ") + RankRuns(job.stuck()[i].waiting).text() + " in " + job.stuck()[i].open->call.text();
    return text;
  }
  return begin + ", although all its ranks have called it" +
         (job.silent().empty() ? "" : "; " + silent_text(job.silent()));
}

std::string time_text(int64_t microseconds) {
  const std::time_t seconds = microseconds / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(microseconds / 1000 % 1000));
  return text.data();
}

std::string step_text(int64_t step) { return step < 0 ? "" : detail::concatenate(" in step ", step); }

std::string history(const HangState& state) {
  std::string text =
      detail::concatenate("\n  the last calls of rank ", state.rank, " (", state.host, "), times in UTC:");
  for (const CallRecord& call : state.last) {
    text += "\n    " + time_text(call.called) + " " + call.text() + step_text(call.step);
    text += call.ended == 0
                ? ": not ended"
                : detail::concatenate(": ", (static_cast<double>(call.ended) - static_cast<double>(call.called)) / 1000,
                                      " ms");
  }
  if (state.last.empty()) text += " none";
  return text;
}

std::string details_of(const Job& job) {
  std::string text;
  for (size_t i = 0; i < std::min(job.stuck().size(), kMostCalls); ++i) {
    const Stuck& stuck = job.stuck()[i];
    text += "\n  " + stuck.open->call.text() + step_text(stuck.open->call.step) + ": " +
            is_or_are(stuck.waiting, " is in it", " are in it");
    if (!stuck.missing.empty()) text += "; " + why_missing(job, stuck);
  }
  if (job.stuck().size() > kMostCalls)
    text += detail::concatenate("\n  and ", job.stuck().size() - kMostCalls, " more");
  if (!job.silent().empty()) text += "\n  " + silent_text(job.silent());
  size_t histories = 0;
  for (const int rank : job.stuck().front().missing) {
    const HangState* const state = job.state(rank);
    if (state == nullptr || ++histories > kMostHistories) continue;
    text +=
        detail::concatenate("\n  rank ", rank, " (", state->host, ") ",
                            state->waits ? "waits for another call" : "is not waiting in axonn: it computes, or hangs",
                            step_text(state->step));
    text += history(*state);
  }
  return text + history(*job.state(job.stuck().front().waiting.front()));
}

}  // namespace

HangReport hang_report(const std::vector<HangState>& states, int ranks, int64_t limit_seconds) {
  const Job job(states, ranks);
  if (job.stuck().empty())
    return {detail::concatenate("a rank made no progress for ", limit_seconds,
                                " s, and went on before it was asked why; set AXONN_TIMEOUT_SECONDS to more"),
            ""};
  return {headline_of(job, limit_seconds), details_of(job)};
}

}  // namespace axonn
