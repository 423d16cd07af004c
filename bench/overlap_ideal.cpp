#include "overlap_ideal.hpp"

#include <algorithm>

namespace axonn::bench {
namespace {

using Time = RequestRecord::Time;

double seconds(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }

// An action of the host, in the order of real time.
struct Event {
  Time begin, end;  // equal for a launch
  size_t record;
  bool wait;
};

std::vector<Event> host_events(const std::vector<RequestRecord>& records) {
  std::vector<Event> events;
  for (size_t i = 0; i < records.size(); ++i) {
    const RequestRecord& record = records[i];
    events.push_back({record.launched, record.launched, i, false});
    // A wait is recorded even if the collective was done before: the longest path may go through
    // it.
    events.push_back({record.wait_began, record.waited, i, true});
  }
  std::ranges::stable_sort(events, {}, &Event::begin);
  return events;
}

}  // namespace

double ideal_seconds(const std::vector<RequestRecord>& records, Time begin, Time end,
                     const std::function<double(const RequestRecord&)>& alone) {
  std::vector<double> done(records.size(), 0);
  double host = 0, last_scattered = 0;
  Time real = begin;
  for (const Event& event : host_events(records)) {
    host += std::max(0.0, seconds(real, event.begin));
    real = std::max(real, event.end);
    const RequestRecord& record = records[event.record];
    if (event.wait) {
      host = std::max(host, done[event.record]);
      continue;
    }
    const double start = record.kind == Traffic::data ? std::max(host, last_scattered) : host;
    done[event.record] = start + alone(record);
    if (record.kind == Traffic::reduce_scatter) last_scattered = done[event.record];
  }
  return host + std::max(0.0, seconds(real, end));
}

}  // namespace axonn::bench
