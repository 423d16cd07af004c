#include "comm/watch/hang_enquiry.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "transport/rank_tree.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

// Together less than the 10 s within which all ranks are gone after the limit.
constexpr auto kRankZeroAsksFirst = 1s;  // it has usually waited as long as this rank
constexpr auto kWriting = 2s;            // for the flight file, on a file system that may hang too
constexpr auto kCollecting = 200ms;      // before some answers are passed on without the others
constexpr auto kAnswering = 4s;          // for all ranks
constexpr auto kReading = 300ms;         // a level: for the verdict, before this rank's end is the others' news
constexpr auto kDelivery = 1s;           // for the last letters
constexpr auto kVerdict = 7s;            // from this rank's time-out on

}  // namespace

struct HangEnquiry::FlightFile {
  std::atomic<bool> written{false};
};

void HangEnquiry::begin(const std::string& own) {
  if (!own_.empty()) return;
  own_ = own;
  start();
}

void HangEnquiry::start() {
  if (began_) return;
  began_ = now_();
  if (rank_ == 0) ask_below("another rank waits in vain");
}

std::optional<std::string> HangEnquiry::poll() {
  letters_.poll();
  if (!began_) return std::nullopt;
  if (verdict_) return may_end() ? verdict_ : std::nullopt;
  const auto waited = now_() - *began_;
  if (asked_) {
    answer();
  } else if (!own_.empty() && waited > kRankZeroAsksFirst) {
    raise_alarm();
  }
  if (rank_ == 0) {
    if (all_have_answered() || waited > kAnswering + for_more_levels()) conclude();
  } else if (!own_.empty() && waited > kVerdict + for_more_levels()) {
    return own_ + "; rank 0 did not answer when it was asked for a report";
  }
  return std::nullopt;
}

std::string HangEnquiry::verdict_or(const std::string& error) noexcept {
  try {
    letters_.read();
  } catch (const std::exception&) {  // the transport has the error already
  }
  return verdict_ && reported_ ? *verdict_ : error;
}

void HangEnquiry::take(int from, HangLetter letter) {
  if (verdict_) return;
  if (letter.kind == HangLetter::Kind::waits) {
    start();
    if (!asked_) raise_alarm();
  } else if (letter.kind == HangLetter::Kind::ask) {
    start();
    if (!asked_) ask_below("rank 0 asked: a rank waits in vain");
    askers_.push_back({.rank = from, .last = now_()});
  } else if (letter.kind == HangLetter::Kind::answer) {
    for (HangState& state : letter.states) add(std::move(state));
  } else if (letter.kind == HangLetter::Kind::verdict) {
    take_verdict(letter.verdict);
    if (from > rank_) letters_.send_up(letter);
    letters_.send_down(letter);
  } else if (letter.kind == HangLetter::Kind::probe && answer_ && !began_) {
    answer_(std::move(letter.probe));
  }
}

void HangEnquiry::raise_alarm() {
  if (!own_.empty() && !file_) write_flight_file(own_);
  if (!std::exchange(raised_, true)) letters_.send_up({.kind = HangLetter::Kind::waits});
}

void HangEnquiry::ask_below(const std::string& why) {
  asked_ = now_();
  if (!file_) write_flight_file(own_.empty() ? why : own_);
  letters_.send_down({.kind = HangLetter::Kind::ask});
}

void HangEnquiry::probe(int rank, const WaitProbe& probe) {
  letters_.send(rank, {.kind = HangLetter::Kind::probe, .probe = probe});
}

void HangEnquiry::end_job(const std::string& error) {
  if (verdict_) return;
  take_verdict(error);
  const HangLetter letter{.kind = HangLetter::Kind::verdict, .verdict = error};
  letters_.send_up(letter);
  letters_.send_down(letter);
}

void HangEnquiry::take_verdict(const std::string& verdict) {
  if (!began_) began_ = now_();
  if (!file_) write_flight_file(verdict);
  if (rank_ == 0) log::error(verdict);
  verdict_ = verdict;
  concluded_ = now_();
  reported_ = true;
}

bool HangEnquiry::may_end() const {
  const auto waited = now_() - concluded_;
  return waited > kReading * tree_levels(ranks_) && (letters_.settled() || waited > kDelivery);
}

HangEnquiry::Clock::duration HangEnquiry::for_more_levels() const {
  return TreeLetters::kHeard * std::max(0, tree_levels(ranks_) - 1);
}

// On a thread of its own, which may outlive this object: the file system may be what hangs.
void HangEnquiry::write_flight_file(const std::string& why) {
  file_ = std::make_shared<FlightFile>();
  if (directory_.empty()) {
    file_->written = true;
    return;
  }
  std::thread([file = file_, directory = directory_, rank = rank_, why,
               records = recorder_.last(FlightRecorder::kRecords)] {
    try {
      axonn::write_flight_file(directory, rank, why, records);
    } catch (const std::exception& error) {
      log::error("the flight file: ", error.what());
    }
    file->written = true;
  }).detach();
}

bool HangEnquiry::written() const { return !file_ || file_->written; }

void HangEnquiry::add(HangState state) {
  if (known_.insert(state.rank).second) states_.push_back(std::move(state));
}

bool HangEnquiry::all_have_answered() const { return static_cast<int>(states_.size()) == ranks_below(rank_, ranks_); }

void HangEnquiry::answer() {
  const auto now = now_();
  if (!known_.contains(rank_) && (written() || now - *asked_ > kWriting)) add(describe_());
  for (Asker& asker : askers_) {
    if (asker.sent == states_.size() || (!all_have_answered() && now - asker.last < kCollecting)) continue;
    const auto news = states_.begin() + static_cast<ptrdiff_t>(asker.sent);
    letters_.send(asker.rank, {.kind = HangLetter::Kind::answer, .states = {news, states_.end()}});
    asker = {.rank = asker.rank, .last = now, .sent = states_.size()};
  }
}

void HangEnquiry::conclude() {
  const HangReport report = hang_report(states_, ranks_, limit_.count());
  const std::string files =
      directory_.empty() ? "" : "\n  all that the ranks remember: " + (directory_ / "rank-*.jsonl").string();
  log::error(report.headline, report.details, files);
  reported_ = true;
  concluded_ = now_();
  verdict_ = report.headline;
  letters_.send_down({.kind = HangLetter::Kind::verdict, .verdict = report.headline});
}

}  // namespace axonn
