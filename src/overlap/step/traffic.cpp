#include "axonn/overlap/step/traffic.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::max(0.0, std::chrono::duration<double>(duration).count()); }

}  // namespace

LoggedRequest TrafficLog::launch(Traffic kind, AxisSet axes, int64_t bytes, std::string_view tag, Request request) {
  if (!in_step_) return {std::move(request), -1};
  const auto now = Clock::now();
  records_.push_back({.kind = kind,
                      .axes = axes,
                      .bytes = bytes,
                      .tag = tag,
                      .launched = now,
                      .started = now,
                      .ended = now,
                      .wait_began = {},
                      .waited = {}});
  requests_.push_back(request);
  return {std::move(request), static_cast<int>(records_.size()) - 1};
}

void TrafficLog::wait(const LoggedRequest& request) {
  const auto start = Clock::now();
  request.request.wait();
  const auto end = Clock::now();
  waited_seconds_ += seconds(end - start);
  if (!in_step_ || request.record < 0) return;
  RequestRecord& record = records_[static_cast<size_t>(request.record)];
  if (record.waited != RequestRecord::Time()) return;
  record.wait_began = start;
  record.waited = end;
}

void TrafficLog::begin_step() {
  records_.clear();
  requests_.clear();
  waited_seconds_ = 0;
  in_step_ = true;
}

void TrafficLog::end_step() {
  in_step_ = false;
  sums_ = {};
  for (size_t i = 0; i < records_.size(); ++i) {
    RequestRecord& record = records_[i];
    if (const auto moved = requests_[i].moved()) std::tie(record.started, record.ended) = *moved;
    if (record.waited == RequestRecord::Time()) record.wait_began = record.waited = record.ended;
    TrafficSum& sum = sums_[static_cast<size_t>(record.kind)];
    ++sum.collectives;
    sum.bytes += record.bytes;
    const double exposed = seconds(record.waited - record.wait_began);
    sum.exposed_seconds += exposed;
    sum.hidden_seconds += seconds(std::min(record.ended, record.wait_began) - record.started);
  }
  requests_.clear();
}

}  // namespace axonn
