#include "comm/watch/wait_probe.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr size_t kMostEarlier = 8;
constexpr const char* kCure =
    "; every rank of a group makes the same calls in the same order: begin_step() with as many micro-batches, "
    "finish(), gathered(), clip_grad_norm_() and saving are for all ranks, also where only one uses the result";

}  // namespace

bool WaitProbe::within(int ranks) const {
  const auto exists = [ranks](int rank) { return rank >= 0 && rank < ranks; };
  return !path.empty() && std::ranges::all_of(passed_on, exists) &&
         std::ranges::all_of(path, [&](const Link& link) { return exists(link.rank) && link.call.peer < ranks; });
}

std::string WaitProbe::mismatch(int here, const FlightRecorder& own_calls) const {
  const Call& call = asker().call;
  std::string theirs = call.text, mine;
  if (const auto own = own_calls.find(call.key())) mine = own->full_text();
  for (const auto& [order, signature, text] : call.earlier) {
    const auto own = own_calls.find({.channel = call.channel, .order = order});
    if (!own || own->details.signature == signature) continue;
    theirs = text;
    mine = own->full_text();
    break;
  }
  return detail::concatenate("the ranks call different collectives: rank ", asker().rank, " has called ", theirs,
                             " where rank ", here, " has called ", mine,
                             theirs == mine ? ", of other parts, segments or owners" : "", kCure);
}

std::string WaitProbe::ended(int here) const {
  return detail::concatenate("rank ", asker().rank, " waits in ", asker().call.text, " for rank ", here,
                             ", which has not called it and whose program has ended", kCure);
}

std::string WaitProbe::circle(size_t begin) const {
  std::string text = "the ranks wait for each other, and none can go on: ";
  for (size_t i = begin; i < path.size(); ++i)
    text += detail::concatenate(i == begin ? "" : ", ", "rank ", path[i].rank, " waits in ", path[i].call.text,
                                " for rank ", path[i + 1 < path.size() ? i + 1 : begin].rank);
  return text + kCure;
}

std::vector<WaitProbe::Call::Earlier> earlier_calls(const FlightRecorder& recorder, const FlightRecorder::Key& call) {
  std::vector<WaitProbe::Call::Earlier> result;
  for (const CallRecord& record : recorder.before(call, kMostEarlier))
    result.push_back({record.order, record.details.signature, record.full_text()});
  return result;
}

void to_json(nlohmann::json& json, const WaitProbe& probe) {
  auto path = nlohmann::json::array();
  for (const auto& [rank, call] : probe.path) {
    auto earlier = nlohmann::json::array();
    for (const auto& [order, signature, text] : call.earlier) earlier.push_back({order, signature, text});
    path.push_back({{"rank", rank},
                    {"channel", call.channel},
                    {"order", call.order},
                    {"peer", call.peer},
                    {"sends", call.sends},
                    {"signature", call.signature},
                    {"text", call.text},
                    {"needed", call.needed},
                    {"needs_all", call.needs_all},
                    {"earlier", earlier}});
  }
  json = {{"path", path}, {"passed_on", probe.passed_on}, {"program_waits", probe.program_waits}};
}

void from_json(const nlohmann::json& json, WaitProbe& probe) {
  for (const auto& link : json.at("path")) {
    std::vector<WaitProbe::Call::Earlier> earlier;
    for (const auto& one : link.at("earlier")) earlier.push_back({one.at(0), one.at(1), one.at(2)});
    probe.path.push_back({.rank = link.at("rank"),
                          .call = {.channel = link.at("channel"),
                                   .order = link.at("order"),
                                   .peer = link.at("peer"),
                                   .sends = link.at("sends"),
                                   .signature = link.at("signature"),
                                   .text = link.at("text"),
                                   .needed = link.at("needed"),
                                   .needs_all = link.at("needs_all"),
                                   .earlier = std::move(earlier)}});
  }
  json.at("passed_on").get_to(probe.passed_on);
  json.at("program_waits").get_to(probe.program_waits);
}

bool ProbeClock::due(Clock::time_point now, Clock::time_point last_progress, int waits_for) {
  if (waits_for != waits_for_) {
    since_ = now;
    waits_for_ = waits_for;
    sent_ = 0;
  }
  if (last_progress > since_) {
    since_ = last_progress;
    sent_ = 0;
  }
  if (now - since_ < kFirst * (int64_t{1} << sent_)) return false;
  ++sent_;
  return true;
}

}  // namespace axonn
