#include "scale_report.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "comm/watch/hang_enquiry.hpp"

namespace axonn::bench {
namespace {

using namespace std::chrono_literals;

struct Post {
  int from;
  std::vector<uint8_t> bytes;
};

// A letter is with its receiver when it is sent.
class PostTransport final : public Transport {
 public:
  PostTransport(int rank, std::vector<std::deque<Post>>& boxes) : rank_(rank), boxes_(boxes) {}

  std::string_view name() const override { return "post"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(boxes_.size()); }
  Ticket send(int peer, uint32_t, const void* data, size_t bytes) override {
    ++sent.messages;
    sent.bytes += static_cast<int64_t>(bytes);
    const auto* const first = static_cast<const uint8_t*>(data);
    boxes_[static_cast<size_t>(peer)].push_back({rank_, {first, first + bytes}});
    return 0;
  }
  Ticket receive(int, uint32_t, void* data, size_t bytes) override {
    auto& box = boxes_[static_cast<size_t>(rank_)];
    std::memcpy(data, box.front().bytes.data(), bytes);
    box.pop_front();
    return 0;
  }
  bool test(Ticket) override { return true; }
  std::optional<Letter> letter() override {
    const auto& box = boxes_[static_cast<size_t>(rank_)];
    if (box.empty()) return std::nullopt;
    return Letter{box.front().from, box.front().bytes.size()};
  }
  void abort(int exit_status) noexcept override { std::_Exit(exit_status); }

  Sent sent;

 private:
  const int rank_;
  std::vector<std::deque<Post>>& boxes_;
};

HangState state_of(int rank, bool waits, const RankRuns& all) {
  HangState state{.rank = rank, .host = "node", .step = 31, .waits = waits, .open = {}, .last = {}};
  if (!waits) return state;
  const CallRecord call{.collective = "all-reduce", .group = "world", .tag = "h.3", .number = 17, .channel = 4};
  state.open.push_back({.call = call, .members = all});
  state.last_numbers[call.channel] = call.number;
  return state;
}

class Job {
 public:
  explicit Job(int ranks) : boxes_(static_cast<size_t>(ranks)), all_(static_cast<size_t>(ranks)) {
    std::iota(all_.begin(), all_.end(), 0);
    runs_ = RankRuns(all_);
    for (const int rank : all_) {
      transports_.push_back(std::make_unique<PostTransport>(rank, boxes_));
      enquiries_.push_back(std::make_unique<HangEnquiry>(
          *transports_.back(), recorder_, [this, rank] { return state_of(rank, rank != all_.back(), runs_); }, 60s,
          HangEnquiry::Answer(), [this] { return now_; }));
    }
  }

  std::vector<std::optional<std::string>> errors() {
    std::vector<std::optional<std::string>> errors(all_.size());
    for (const int rank : all_)
      if (rank != all_.back()) enquiries_[static_cast<size_t>(rank)]->begin("rank 0 is silent");
    const auto end = now_ + 60s;
    for (bool left = true; left && now_ < end; now_ += 10ms) {
      const std::clock_t before = std::clock();
      left = !poll(0, errors);
      clocks_of_rank_0_ += std::clock() - before;
      for (size_t i = 1; i < errors.size(); ++i) left |= !poll(i, errors);
    }
    return errors;
  }

  double cpu_seconds_of_rank_0() const { return static_cast<double>(clocks_of_rank_0_) / CLOCKS_PER_SEC; }

  Sent sent_by(int rank) const { return transports_[static_cast<size_t>(rank)]->sent; }
  Sent most() const {
    const auto messages = [](const auto& transport) { return transport->sent.messages; };
    return (*std::ranges::max_element(transports_, {}, messages))->sent;
  }

 private:
  // Whether the rank has ended.
  bool poll(size_t rank, std::vector<std::optional<std::string>>& errors) {
    if (!errors[rank]) errors[rank] = enquiries_[rank]->poll();
    return errors[rank].has_value();
  }

  HangEnquiry::Clock::time_point now_;  // theirs: a round of all ranks takes no longer than in a job
  std::clock_t clocks_of_rank_0_ = 0;
  const FlightRecorder recorder_;
  std::vector<std::deque<Post>> boxes_;  // by receiver
  std::vector<int> all_;
  RankRuns runs_;
  std::vector<std::unique_ptr<PostTransport>> transports_;
  std::vector<std::unique_ptr<HangEnquiry>> enquiries_;
};

}  // namespace

ReportLetters report_letters(int ranks) {
  Job job(ranks);
  const auto errors = job.errors();
  return {.rank_0 = job.sent_by(0),
          .most = job.most(),
          .headline = errors.front().value_or("none"),
          .cpu_seconds_of_rank_0 = job.cpu_seconds_of_rank_0(),
          .alike = std::ranges::all_of(errors, [&](const auto& error) { return error && error == errors.front(); })};
}

}  // namespace axonn::bench
