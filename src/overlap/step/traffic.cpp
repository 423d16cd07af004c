#include "axonn/overlap/step/traffic.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::max(0.0, std::chrono::duration<double>(duration).count()); }

}  // namespace

struct TrafficLine {
  RequestRecord record;
  Request request;  // until it is waited for
  bool waited = false;

  // Reads when the collective moved, which its backend writes until it is done.
  void take_times() {
    if (!request.done()) return;
    if (const auto moved = request.moved()) std::tie(record.started, record.ended) = *moved;
  }
};

LoggedRequest TrafficLog::launch(Traffic kind, AxisSet axes, int64_t bytes, std::string_view tag, Request request) {
  const auto now = Clock::now();
  const RequestRecord record{.kind = kind,
                             .axes = axes,
                             .bytes = bytes,
                             .tag = tag,
                             .launched = now,
                             .started = now,
                             .ended = now,
                             .wait_began = {},
                             .waited = {}};
  open_.push_back(std::make_shared<TrafficLine>(TrafficLine{.record = record, .request = request}));
  return {std::move(request), open_.back()};
}

void TrafficLog::wait(const LoggedRequest& request) {
  const auto start = Clock::now();
  request.request.wait();
  const auto end = Clock::now();
  waited_seconds_ += seconds(end - start);
  if (!request.line || request.line->waited) return;
  TrafficLine& line = *request.line;
  line.waited = true;
  line.record.wait_began = start;
  line.record.waited = end;
  line.take_times();
  line.request = {};
  if (!in_step_) std::erase(open_, request.line);
}

void TrafficLog::land() const {
  for (const Line& line : open_) line->request.wait();
}

// A line that nobody holds has lost its network.
void TrafficLog::begin_step() {
  std::erase_if(open_, [](const Line& line) { return line.use_count() == 1; });
  waited_seconds_ = 0;
  in_step_ = true;
}

void TrafficLog::end_step() {
  in_step_ = false;
  records_.clear();
  sums_ = {};
  std::vector<Line> later;
  for (Line& line : open_) {
    if (line->waited || line.use_count() == 1)
      book(*line);
    else
      later.push_back(std::move(line));
  }
  open_ = std::move(later);
}

void TrafficLog::book(TrafficLine& line) {
  RequestRecord& record = line.record;
  if (!line.waited) {
    line.take_times();
    record.wait_began = record.waited = record.ended;
  }
  TrafficSum& sum = sums_[static_cast<size_t>(record.kind)];
  ++sum.collectives;
  sum.bytes += record.bytes;
  sum.exposed_seconds += seconds(record.waited - record.wait_began);
  sum.hidden_seconds += seconds(std::min(record.ended, record.wait_began) - record.started);
  records_.push_back(record);
}

}  // namespace axonn
