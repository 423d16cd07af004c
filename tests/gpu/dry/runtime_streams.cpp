// Streams, events and graphs. Work is never carried out, but its order is kept.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <vector>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

// The device is slower than a host that gives it work all the time: it has only done what the host
// has waited for. When the host pauses for so long, it does the rest, but for what hangs.
std::chrono::duration<double, std::milli> catches_up() {
  static const double milliseconds = number("DRY_GPU_CATCHES_UP_MS", 50);
  return std::chrono::duration<double, std::milli>(milliseconds);
}

std::atomic<int> streams_made = 0;
std::vector<Capture*> captures;  // under way
std::deque<Hang> hanging;
std::condition_variable_any hang_ended;
using Clock = std::chrono::steady_clock;

// Kept until the process ends: libraries give work from their destructors.
struct Progress {
  Clocks given;   // all work of every stream
  Clocks waited;  // those that the host has waited for
  Clock::time_point last_given;
};
Progress& progress() {
  static auto* const the = new Progress;
  return *the;
}
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }
Graph& graph_of(cudaGraph_t graph) { return *reinterpret_cast<Graph*>(graph); }

bool have_ended(const Hangs& hangs) {
  return std::ranges::all_of(hangs, [](const Hang* hang) { return hang->ended; });
}

void follow(Clocks& clocks, const Clocks& earlier) {
  for (const auto& [stream, done] : earlier) clocks[stream] = std::max(clocks[stream], done);
}

void wait_for(const Work& work) {
  std::unique_lock lock(mutex());
  follow(progress().waited, work.clocks);
  hang_ended.wait(lock, [&] { return have_ended(work.hangs); });
}

Work work_before(const auto& place) {
  const std::lock_guard lock(mutex());
  return {place.clocks, place.hangs};
}

cudaError_t passed(const auto& place) {
  const std::lock_guard lock(mutex());
  const Clocks& waited = progress().waited;
  const bool came =
      Clock::now() - progress().last_given > catches_up() || std::ranges::all_of(place.clocks, [&](const auto& done) {
        const auto until = waited.find(done.first);
        return until != waited.end() && done.second <= until->second;
      });
  return state() != cudaSuccess || (came && have_ended(place.hangs)) ? state() : cudaErrorNotReady;
}

// Work that its stream was given after the event.
long long work_behind(const Event& event) {
  const std::lock_guard lock(mutex());
  if (event.stream == nullptr) return 0;
  const auto now = event.stream->clocks.find(event.stream->number), then = event.clocks.find(event.stream->number);
  return (now == event.stream->clocks.end() ? 0 : now->second) - (then == event.clocks.end() ? 0 : then->second);
}

cudaError_t refuse(Capture& capture, const char* call, cudaError_t error) {
  capture.broken = true;
  write("refused", join(call, cudaGetErrorString(error), callers()));
  return error;
}

}  // namespace

std::mutex& mutex() {
  static auto* const the = new std::mutex;
  return *the;
}

Stream& stream_of(cudaStream_t stream) {
  static auto* const legacy = new Stream;
  const bool named = stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
  return named ? *reinterpret_cast<Stream*>(stream) : *legacy;
}

int number_of(cudaStream_t stream) { return stream_of(stream).number; }

cudaError_t work(cudaStream_t given) {
  const std::lock_guard lock(mutex());
  Stream& stream = stream_of(given);
  if (stream.ended) return cudaErrorInvalidResourceHandle;
  progress().given[stream.number] = ++stream.clocks[stream.number];
  progress().last_given = Clock::now();
  if (stream.capture != nullptr) {
    if (stream.capture->broken) return cudaErrorStreamCaptureInvalidated;
    ++stream.capture->nodes;
  }
  return state();
}

cudaError_t allowed_in_capture(const char* call) {
  const std::lock_guard lock(mutex());
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (Capture* capture : captures)
    if (capture->mode != cudaStreamCaptureModeRelaxed) return refuse(*capture, call, cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}

cudaError_t allowed_on(Stream& stream, const char* call) {
  const std::lock_guard lock(mutex());
  return stream.capture == nullptr ? cudaSuccess : refuse(*stream.capture, call, cudaErrorStreamCaptureUnsupported);
}

void host_waits(const char* call, const Work& work) {
  if (recording()) write("wait", join(call, callers()));
  wait_for(work);
}

Work all_work() {
  const std::lock_guard lock(mutex());
  Work all{.clocks = progress().given, .hangs = {}};
  for (const Hang& one : hanging) all.hangs.insert(&one);
  return all;
}

void hang(cudaStream_t stream, int communicator) {
  const std::lock_guard lock(mutex());
  stream_of(stream).hangs.insert(&hanging.emplace_back(Hang{.communicator = communicator}));
}

void end_hangs_of(int communicator) {
  const std::lock_guard lock(mutex());
  for (Hang& one : hanging)
    if (one.communicator == communicator) one.ended = true;
  hang_ended.notify_all();
}

}  // namespace dry

using namespace dry;

DRY_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  auto* const made = new Stream{.number = ++streams_made};
  *stream = reinterpret_cast<cudaStream_t>(made);
  write("stream", join(made->number, priority));
  return state();
}
DRY_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
DRY_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  stream_of(stream).ended = true;
  return state();
}
DRY_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const auto error = allowed_on(stream_of(stream), "cudaStreamSynchronize")) return error;
  host_waits("cudaStreamSynchronize", work_before(stream_of(stream)));
  return state();
}
DRY_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const auto error = allowed_on(stream_of(stream), "cudaStreamQuery")) return error;
  return passed(stream_of(stream));
}
DRY_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex());
  Stream& waits = stream_of(stream);
  const Event& earlier = event_of(event);
  if (waits.capture != nullptr && earlier.capture == nullptr && !earlier.clocks.empty())
    return refuse(*waits.capture, "cudaStreamWaitEvent", cudaErrorStreamCaptureIsolation);
  if (waits.capture != nullptr && earlier.capture != nullptr && waits.capture != earlier.capture)
    return refuse(*waits.capture, "cudaStreamWaitEvent", cudaErrorStreamCaptureMerge);
  if (earlier.capture != nullptr) {
    waits.capture = earlier.capture;
    earlier.capture->streams.insert(&waits);
  }
  follow(waits.clocks, earlier.clocks);
  waits.hangs.insert(earlier.hangs.begin(), earlier.hangs.end());
  write("join", join(waits.number, reinterpret_cast<size_t>(event)));
  return state();
}

DRY_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  write("event", join(reinterpret_cast<size_t>(*event)));
  return state();
}
DRY_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
DRY_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return state();
}
DRY_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  const std::lock_guard lock(mutex());
  Stream& place = stream_of(stream);
  if (place.ended) return cudaErrorInvalidResourceHandle;
  event_of(event) = {place.clocks, place.capture, &place, place.hangs};
  write("mark", join(place.number, reinterpret_cast<size_t>(event)));
  return state();
}
DRY_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
DRY_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event_of(event).capture != nullptr) return allowed_in_capture("cudaEventQuery");
  return passed(event_of(event));
}
// If the stream has more to do, the device does not stand still: a lag.
DRY_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto error = allowed_in_capture("cudaEventSynchronize")) return error;
  const Work before = work_before(event_of(event));
  if (const long long behind = work_behind(event_of(event)); behind == 0) {
    host_waits("cudaEventSynchronize", before);
  } else {
    write("lag", join(behind, callers()));
    wait_for(before);
  }
  return state();
}
DRY_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return state();
}

DRY_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t given, cudaStreamCaptureMode mode) {
  static unsigned long long made = 0;
  const std::lock_guard lock(mutex());
  Stream& stream = stream_of(given);
  if (stream.number == 0 || stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  auto* const capture = new Capture{.origin = &stream, .streams = {&stream}, .mode = mode, .id = ++made};
  stream.capture = capture;
  captures.push_back(capture);
  return state();
}
DRY_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t given, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(mutex());
  const Capture* const capture = stream_of(given).capture;
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->broken  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return state();
}
DRY_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t given, cudaStreamCaptureStatus* status,
                                                unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t**,
                                                const cudaGraphEdgeData**, size_t* count) {
  const auto error = cudaStreamIsCapturing(given, status);
  const std::lock_guard lock(mutex());
  const Capture* const capture = stream_of(given).capture;
  if (id != nullptr) *id = capture != nullptr ? capture->id : 0;
  if (graph != nullptr) *graph = nullptr;
  if (count != nullptr) *count = 0;
  return error;
}
DRY_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t given, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex());
  Stream& stream = stream_of(given);
  Capture* const capture = stream.capture;
  *graph = nullptr;
  if (capture == nullptr || capture->origin != &stream) return cudaErrorInvalidValue;
  std::erase(captures, capture);
  bool joined = true;
  for (Stream* member : capture->streams) {
    joined = joined && stream.clocks[member->number] == member->clocks[member->number];
    member->capture = nullptr;
  }
  if (capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return refuse(*capture, "cudaStreamEndCapture", cudaErrorStreamCaptureUnjoined);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{capture->nodes});
  write("captured", join(capture->nodes));
  return state();
}
DRY_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes == nullptr) *count = graph_of(graph).nodes;
  return state();
}
DRY_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* prepared, cudaGraph_t graph, unsigned long long) {
  *prepared = reinterpret_cast<cudaGraphExec_t>(new Graph(graph_of(graph)));
  return state();
}
DRY_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t prepared, cudaStream_t stream) {
  write("graph", join(reinterpret_cast<Graph*>(prepared)->nodes, number_of(stream)));
  return work(stream);
}
DRY_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_of(graph);
  return state();
}
DRY_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t prepared) {
  delete reinterpret_cast<Graph*>(prepared);
  return state();
}
