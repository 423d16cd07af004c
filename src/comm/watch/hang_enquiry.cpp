#include "comm/watch/hang_enquiry.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "comm/watch/hang_letter.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

// Together less than the 10 s within which all ranks are gone after the limit.
constexpr auto kRankZeroAsksFirst = 1s;  // it has usually waited as long as this rank
constexpr auto kWriting = 2s;            // for the flight file, on a file system that may hang too
constexpr auto kAnswering = 4s;          // for all ranks
constexpr auto kReading = 200ms;         // for the others' verdict, before this rank's end is their news
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
  began_ = Clock::now();
  if (transport_.rank() != 0) return;
  for (int rank = 1; rank < transport_.ranks(); ++rank) send(rank, {.kind = HangLetter::Kind::ask});
  states_.insert(states_.begin(), describe_());
  write_flight_file(own_.empty() ? "another rank waits in vain" : own_);
}

std::optional<std::string> HangEnquiry::poll() {
  read_letters();
  all_sent();
  if (!began_) return std::nullopt;
  const auto now = Clock::now();
  if (transport_.rank() == 0) {
    const bool all = static_cast<int>(states_.size()) == transport_.ranks() && written();
    if (!verdict_ && (all || now - *began_ > kAnswering)) conclude();
    if (verdict_ && now - concluded_ > (all_sent() ? kReading : kDelivery)) return verdict_;
    return std::nullopt;
  }
  if (verdict_) return now - concluded_ > (all_sent() ? kReading : kDelivery) ? verdict_ : std::nullopt;
  if (!asked_ && !own_.empty() && now - *began_ > kRankZeroAsksFirst) {
    asked_ = true;
    write_flight_file(own_);
  }
  answer_if_ready();
  if (!own_.empty() && now - *began_ > kVerdict) return own_ + "; rank 0 did not answer when it was asked for a report";
  return std::nullopt;
}

std::string HangEnquiry::verdict_or(const std::string& error) noexcept {
  try {
    read_letters();
  } catch (const std::exception&) {  // the transport has the error already
  }
  return verdict_ && reported_ ? *verdict_ : error;
}

// A letter is read when all of it is here.
void HangEnquiry::read_letters() {
  while (const auto letter = transport_.letter()) {
    Arriving& next = arriving_.emplace_back();
    next.from = letter->from;
    next.bytes.resize(letter->bytes);
    next.ticket = transport_.receive(next.from, Transport::kLetters, next.bytes.data(), next.bytes.size());
  }
  for (size_t i = 0; i < arriving_.size();) {
    if (!transport_.test(arriving_[i].ticket)) {
      ++i;
      continue;
    }
    const Arriving arrived = std::move(arriving_[i]);
    arriving_.erase(arriving_.begin() + static_cast<ptrdiff_t>(i));
    read(arrived.from, arrived.bytes);
  }
}

// A rank whose letter cannot be read is one that has not answered.
void HangEnquiry::read(int from, const std::vector<uint8_t>& bytes) {
  try {
    take(from, HangLetter::read(bytes, from, transport_.ranks()));
  } catch (const BackendError& error) {
    log::warn(error.sentence());
  }
}

void HangEnquiry::take(int from, HangLetter letter) {
  if (letter.kind == HangLetter::Kind::ask) {
    if (!began_) began_ = Clock::now();
    if (!std::exchange(asked_, true)) write_flight_file(own_.empty() ? "rank 0 asked: a rank waits in vain" : own_);
  } else if (letter.kind == HangLetter::Kind::answer) {
    const auto known = [&](const HangState& state) { return state.rank == from; };
    if (std::ranges::none_of(states_, known)) states_.push_back(std::move(letter.state));
    start();
  } else if (letter.kind == HangLetter::Kind::verdict) {
    take_verdict(letter.verdict);
  } else if (answer_ && !began_) {
    answer_(std::move(letter.probe));
  }
}

void HangEnquiry::probe(int rank, const WaitProbe& probe) {
  send(rank, {.kind = HangLetter::Kind::probe, .probe = probe});
}

void HangEnquiry::end_job(const std::string& error) {
  if (verdict_) return;
  take_verdict(error);
  for (int rank = 0; rank < transport_.ranks(); ++rank)
    if (rank != transport_.rank()) send(rank, {.kind = HangLetter::Kind::verdict, .verdict = error});
}

void HangEnquiry::take_verdict(const std::string& verdict) {
  if (verdict_) return;
  if (!began_) began_ = Clock::now();
  if (!file_) write_flight_file(verdict);
  if (transport_.rank() == 0) log::error(verdict);
  verdict_ = verdict;
  concluded_ = Clock::now();
  reported_ = true;
}

void HangEnquiry::send(int rank, const HangLetter& letter) {
  Sent& sent = sent_.emplace_back(Sent{.bytes = letter.bytes(), .ticket = 0});
  sent.ticket = transport_.send(rank, Transport::kLetters, sent.bytes.data(), sent.bytes.size());
}

bool HangEnquiry::all_sent() {
  std::erase_if(sent_, [this](const Sent& sent) { return transport_.test(sent.ticket); });
  return sent_.empty();
}

// On a thread of its own, which may outlive this object: the file system may be what hangs.
void HangEnquiry::write_flight_file(const std::string& why) {
  file_ = std::make_shared<FlightFile>();
  if (directory_.empty()) {
    file_->written = true;
    return;
  }
  std::thread([file = file_, directory = directory_, rank = transport_.rank(), why,
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

void HangEnquiry::answer_if_ready() {
  if (!asked_ || answered_ || (!written() && Clock::now() - *began_ < kRankZeroAsksFirst + kWriting)) return;
  answered_ = true;
  send(0, {.kind = HangLetter::Kind::answer, .state = describe_()});
}

void HangEnquiry::conclude() {
  const HangReport report = hang_report(states_, transport_.ranks(), limit_.count());
  const std::string files =
      directory_.empty() ? "" : "\n  all that the ranks remember: " + (directory_ / "rank-*.jsonl").string();
  log::error(report.headline, report.details, files);
  reported_ = true;
  concluded_ = Clock::now();
  verdict_ = report.headline;
  for (int rank = 1; rank < transport_.ranks(); ++rank)
    send(rank, {.kind = HangLetter::Kind::verdict, .verdict = report.headline});
}

}  // namespace axonn
