#include "axonn/train/report/trace.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <nlohmann/json.hpp>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "core/files.hpp"
#include "train/report/device_log.hpp"
#include "train/report/operation_log.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kStepsBefore = 2;

at::Tensor bytes_of(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

}  // namespace

struct Trace::Impl {
  Impl(Context& context_, TraceOptions options_, int64_t steps_to_come)
      : context(context_),
        everyone(context.communicators().on_cpu(AxisSet::all())),
        options(std::move(options_)),
        skipped(std::clamp<int64_t>(steps_to_come - options.steps, 0, kStepsBefore)),
        mine(context.rank() < options.ranks) {
    AXONN_CHECK(options.steps >= 1 && options.ranks >= 1, "train.trace",
                "a trace needs at least one step and one rank, got ", options.steps, " and ", options.ranks);
    all_ranks_or_none(everyone, [&] {
      if (context.rank() == 0) create();
    });
    everyone.barrier().wait();
    origin = std::chrono::steady_clock::now();
    if (!mine) return;
    describe("process_name",
             {{"name", detail::concatenate("rank ", context.rank(), " (", context.at().to_string(), ")")}});
    describe("process_sort_index", {{"sort_index", context.rank()}});
    lane("parts of the step");
    lane("waits");
  }

  // Called before the first step, so that no training is lost if the path cannot be written.
  void create() const {
    const std::filesystem::path path(options.file);
    std::error_code refused;
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), refused);
    AXONN_CHECK(!refused, "train.trace", "cannot make the directory of ", options.file, ": ", reason_and_cure(refused));
    disk::write_synced(path, "");
  }

  double microseconds(Time time) const { return std::chrono::duration<double, std::micro>(time - origin).count(); }

  void describe(const char* what, Json arguments, std::optional<int> lane = {}) {
    Json event = {{"ph", "M"}, {"pid", context.rank()}, {"name", what}, {"args", std::move(arguments)}};
    if (lane) event["tid"] = *lane;
    events.push_back(std::move(event));
  }

  int lane(const std::string& name) {
    const auto [found, is_new] = lanes.try_emplace(name, static_cast<int>(lanes.size()));
    if (is_new) {
      describe("thread_name", {{"name", name}}, found->second);
      describe("thread_sort_index", {{"sort_index", found->second}}, found->second);
    }
    return found->second;
  }

  void add(const std::string& lane_name, std::string name, Time begin, Time end, Json arguments = Json::object()) {
    const int tid = lane(lane_name);
    events.push_back({{"ph", "X"},
                      {"pid", context.rank()},
                      {"tid", tid},
                      {"name", std::move(name)},
                      {"ts", microseconds(begin)},
                      {"dur", std::max(0.0, microseconds(end) - microseconds(begin))},
                      {"args", std::move(arguments)}});
  }

  void add(const RequestRecord& record) {
    const std::string kind(kTrafficNames[static_cast<size_t>(record.kind)]), group = record.axes.to_string();
    const std::string name = kind + " " + std::string(record.tag);
    const auto queue = kPriorityNames[static_cast<size_t>(queue_of(record.kind))];
    add(detail::concatenate("group ", group, ", ", queue, " queue"), name, record.started, record.ended,
        {{"group", group},
         {"ranks", context.shape().size(record.axes)},
         {"bytes", record.bytes},
         {"queue", queue},
         {"queued_us", microseconds(record.started) - microseconds(record.launched)}});
    if (record.waited > record.wait_began) add("waits", "wait: " + name, record.wait_began, record.waited);
  }

  void collect() {
    for (auto& operation : operations.take())
      add(detail::concatenate("operations, thread ", operation.thread), std::move(operation.name), operation.begin,
          operation.end);
    for (const RequestRecord& record : context.scheduler().traffic().records()) add(record);
  }

  void collect_device() {
    const c10::Device on = context.options().device;
    if (on.is_cuda()) c10::impl::VirtualGuardImpl(on.type()).synchronizeDevice(on.index());
    for (auto& entry : device.stop())
      add(detail::concatenate("GPU stream ", entry.stream), std::move(entry.name), entry.begin, entry.end);
  }

  void write() {
    if (std::exchange(written, true)) return;
    if (mine) collect_device();
    std::vector<std::string> texts;
    if (mine) texts.push_back(events.dump());
    const int last = static_cast<int>(std::min<int64_t>(options.ranks, everyone.size()));
    if (mine && everyone.rank() > 0) send(texts.front());
    for (int peer = 1; peer < last && everyone.rank() == 0; ++peer) texts.push_back(receive(peer));
    all_ranks_or_none(everyone, [&] {
      if (everyone.rank() == 0) write(texts);
    });
  }

  void send(const std::string& text) {
    everyone.send(at::empty({1}, at::kLong).fill_(static_cast<int64_t>(text.size())), 0).wait();
    everyone.send(bytes_of(text), 0).wait();
  }

  std::string receive(int peer) {
    const at::Tensor size = at::empty({1}, at::kLong);
    everyone.receive(size, peer).wait();
    const at::Tensor bytes = at::empty({size.item<int64_t>()}, at::kByte);
    everyone.receive(bytes, peer).wait();
    const auto* begin = bytes.const_data_ptr<uint8_t>();
    return {begin, begin + bytes.numel()};
  }

  // Each text is a JSON array of events.
  void write(const std::vector<std::string>& texts) const {
    disk::SyncedFile out(options.file);
    out.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) out.write(",\n");
      out.write(std::string_view(texts[i]).substr(1, texts[i].size() - 2));
    }
    out.write("\n]}\n");
    out.finish();
  }

  Context& context;
  Communicator& everyone;
  TraceOptions options;
  int64_t skipped;  // steps left before the first recorded one
  bool mine;        // this rank is recorded
  bool recording = false;
  bool written = false;
  int64_t recorded = 0;
  Time origin, step_begin;
  std::string step_name;
  std::map<std::string, int> lanes;
  Json events = Json::array();
  OperationLog operations;
  DeviceLog device;
};

Trace::Trace(Context& context, TraceOptions options, int64_t steps_to_come) {
  if (!options.file.empty()) impl_ = std::make_unique<Impl>(context, std::move(options), steps_to_come);
}

Trace::~Trace() = default;

void Trace::begin_step(int64_t number) {
  if (!impl_ || impl_->written || !impl_->mine || impl_->skipped > 0) return;
  impl_->recording = true;
  if (impl_->context.options().device.is_cuda()) impl_->device.start();
  impl_->step_name = detail::concatenate("step ", number);
  impl_->step_begin = std::chrono::steady_clock::now();
  impl_->operations.start();
}

void Trace::add(std::string_view part, Time begin, Time end) {
  if (impl_ && impl_->recording) impl_->add("parts of the step", std::string(part), begin, end);
}

void Trace::end_step() {
  if (!impl_ || impl_->written) return;
  if (impl_->skipped > 0) {
    --impl_->skipped;
    return;
  }
  if (std::exchange(impl_->recording, false)) {
    impl_->operations.stop();
    impl_->add("parts of the step", impl_->step_name, impl_->step_begin, std::chrono::steady_clock::now());
    impl_->collect();
  }
  if (++impl_->recorded == impl_->options.steps) impl_->write();
}

void Trace::finish() {
  if (impl_) impl_->write();
}

}  // namespace axonn
