#include "comm/watch/flight_recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include <c10/core/ScalarType.h>
#include <nlohmann/json.hpp>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/step_moment.hpp"
#include "axonn/core/crash_report.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "core/files.hpp"
#include "core/fixed_text.hpp"

namespace axonn {
namespace {

constexpr std::array<std::string_view, 3> kReduceOpNames = {"sum", "max", "min"};

int64_t now() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count();
}

}  // namespace

struct FlightRecorder::Entry {
  FixedText<24> collective;
  FixedText<32> group;
  FixedText<64> tag;
  int64_t number, bytes, step, called, ended, order;
  uint32_t channel;
  CallDetails details;

  CallRecord record() const;
  bool on(const Key& key) const {
    return channel == key.channel && details.peer == key.peer && (collective.view() == "send") == key.sends;
  }
};

FlightRecorder::FlightRecorder() : entries_(std::make_unique<Entry[]>(kRecords)) {}
FlightRecorder::~FlightRecorder() = default;

uint64_t FlightRecorder::called(const Call& call) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[count_ % kRecords];
  entry.collective = call.collective;
  entry.group = call.group;
  entry.tag = call.tag;
  entry.number = call.number;
  entry.bytes = call.bytes;
  entry.step = crash::step();
  entry.called = now();
  entry.ended = 0;
  entry.channel = call.channel;
  entry.details = call.details;
  entry.order = ++last_orders_[{call.channel, call.details.peer, call.collective == "send"}];
  if (!call.point_to_point()) last_numbers_[call.channel] = call.number;
  if (!call.details.by_program) called_by_others_.insert(call.channel);
  return count_++;
}

void FlightRecorder::ended(uint64_t record) {
  const std::lock_guard lock(mutex_);
  if (count_ - record <= kRecords) entries_[record % kRecords].ended = now();
}

std::vector<CallRecord> FlightRecorder::last(size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<CallRecord> result;
  const uint64_t count = std::min<uint64_t>({most, count_, kRecords});
  for (uint64_t i = count_ - count; i < count_; ++i) result.push_back(entries_[i % kRecords].record());
  return result;
}

CallRecord FlightRecorder::find(uint64_t record, const Call& call) const {
  const std::lock_guard lock(mutex_);
  if (count_ - record <= kRecords) return entries_[record % kRecords].record();
  return {.collective = std::string(call.collective),
          .group = std::string(call.group),
          .tag = std::string(call.tag),
          .number = call.number,
          .bytes = call.bytes,
          .channel = call.channel,
          .details = call.details};
}

std::unordered_map<uint32_t, int64_t> FlightRecorder::last_numbers() const {
  const std::lock_guard lock(mutex_);
  return last_numbers_;
}

int64_t FlightRecorder::order(uint64_t record) const {
  const std::lock_guard lock(mutex_);
  return count_ - record <= kRecords ? entries_[record % kRecords].order : 0;
}

bool FlightRecorder::has_called(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto last = last_orders_.find({key.channel, key.peer, key.sends});
  return last != last_orders_.end() && last->second >= key.order;
}

std::optional<CallRecord> FlightRecorder::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  for (uint64_t i = count_; i > 0 && count_ - i < kRecords; --i) {
    const Entry& entry = entries_[(i - 1) % kRecords];
    if (entry.order == key.order && entry.on(key)) return entry.record();
  }
  return std::nullopt;
}

std::vector<CallRecord> FlightRecorder::before(const Key& collective, size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<CallRecord> result;
  for (uint64_t i = count_; i > 0 && count_ - i < kRecords && result.size() < most; --i) {
    const Entry& entry = entries_[(i - 1) % kRecords];
    if (entry.order < collective.order && entry.on(collective)) result.push_back(entry.record());
  }
  std::ranges::reverse(result);
  return result;
}

bool FlightRecorder::called_by_others(uint32_t channel) const {
  const std::lock_guard lock(mutex_);
  return called_by_others_.contains(channel);
}

CallRecord FlightRecorder::Entry::record() const {
  return {.collective = std::string(collective.view()),
          .group = std::string(group.view()),
          .tag = std::string(tag.view()),
          .number = number,
          .bytes = bytes,
          .step = step,
          .called = called,
          .ended = ended,
          .channel = channel,
          .details = details,
          .order = order};
}

bool FlightRecorder::Call::point_to_point() const { return collective == "send" || collective == "receive"; }
bool CallRecord::point_to_point() const { return FlightRecorder::Call{.collective = collective}.point_to_point(); }

std::string CallRecord::text() const {
  return FlightRecorder::Call{collective, group, tag, number, bytes, channel, details}.text();
}

std::string CallRecord::full_text() const {
  return FlightRecorder::Call{collective, group, tag, number, bytes, channel, details}.full_text();
}

std::string FlightRecorder::Call::text() const {
  std::string text = detail::concatenate(collective, " #", number, " of group '", group, "' (",
                                         bytes_text(static_cast<double>(bytes)), " = ", bytes, " bytes");
  if (!tag.empty()) text += detail::concatenate(", tag '", tag, "'");
  return text + ")";
}

std::string FlightRecorder::Call::full_text() const {
  std::string more;
  const auto add = [&](const auto&... parts) { more += detail::concatenate(more.empty() ? "" : ", ", parts...); };
  if (details.type >= 0) add(c10::toString(static_cast<c10::ScalarType>(details.type)));
  if (details.operation >= 0) add(kReduceOpNames.at(static_cast<size_t>(details.operation)));
  if (details.root >= 0) add("root ", details.root);
  if (details.peer >= 0) add(collective == "send" ? "to rank " : "from rank ", details.peer);
  if (details.priority >= 0 && details.priority != static_cast<int8_t>(Priority::normal))
    add("priority ", kPriorityNames.at(static_cast<size_t>(details.priority)));
  if (const std::string moment = StepMoment::text(details.moment); !moment.empty()) add(moment);
  return more.empty() ? text() : text() + " [" + more + "]";
}

void to_json(nlohmann::json& json, const CallRecord& record) {
  json = {{"step", record.step},     {"collective", record.collective}, {"number", record.number},
          {"group", record.group},   {"bytes", record.bytes},           {"tag", record.tag},
          {"called", record.called}, {"ended", record.ended},           {"channel", record.channel}};
}

void from_json(const nlohmann::json& json, CallRecord& record) {
  json.at("step").get_to(record.step);
  json.at("collective").get_to(record.collective);
  json.at("number").get_to(record.number);
  json.at("group").get_to(record.group);
  json.at("bytes").get_to(record.bytes);
  json.at("tag").get_to(record.tag);
  json.at("called").get_to(record.called);
  json.at("ended").get_to(record.ended);
  json.at("channel").get_to(record.channel);
}

std::string flight_file_name(int rank) {
  std::array<char, 32> name;
  std::snprintf(name.data(), name.size(), "rank-%04d.jsonl", rank);
  return name.data();
}

void write_flight_file(const std::filesystem::path& directory, int rank, const std::string& why,
                       const std::vector<CallRecord>& records) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  using nlohmann::json;
  constexpr auto kAnyBytes = json::error_handler_t::replace;  // a tag may be cut within a character
  std::string text = json{{"rank", rank}, {"host", host.data()}, {"process", ::getpid()}, {"why", why}}.dump(
      -1, ' ', false, kAnyBytes);
  for (const CallRecord& record : records) text += "\n" + json(record).dump(-1, ' ', false, kAnyBytes);
  std::filesystem::create_directories(directory);
  disk::write_synced(directory / flight_file_name(rank), text + "\n");
}

}  // namespace axonn
