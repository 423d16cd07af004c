// The state of the GPU that does nothing.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include <cuda_runtime_api.h>

namespace dry {

struct Capture;

// A stream or the place of an event: for every stream, how much of its work comes before.
using Clocks = std::map<int, long long>;

// Work that does not end until it is aborted. Owned by the list of all.
struct Hang {
  int communicator = -1;  // -1: a kernel, which nothing ends
  bool ended = false;
};
using Hangs = std::set<const Hang*>;

struct Stream {
  int number = 0;  // 0: the legacy stream
  Clocks clocks;
  Hangs hangs;  // those that its work waits for
  Capture* capture = nullptr;
  bool ended = false;  // it is kept, so that a later use is noticed
};

struct Event {
  Clocks clocks;
  Capture* capture = nullptr;
  const Stream* stream = nullptr;
  Hangs hangs;
};

// A graph that is being written down.
struct Capture {
  Stream* origin = nullptr;
  std::set<Stream*> streams;  // origin and those that joined it
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  unsigned long long id = 0;
  size_t nodes = 0;
  bool broken = false;
};

// A prepared graph, or one to prepare.
struct Graph {
  size_t nodes = 0;
};

// Guards everything here.
std::mutex& mutex();
Stream& stream_of(cudaStream_t stream);
int number_of(cudaStream_t stream);

// Work was given to `stream`. A kernel that failed before makes it fail.
cudaError_t work(cudaStream_t stream);
// The first kernel's failure stays until the process ends, as on a GPU.
cudaError_t state();
void break_device(cudaError_t error);

// cudaSuccess unless a capture of this thread, or any global one, forbids `call`, which then breaks
// the capture. `stream` null: the call touches no stream.
cudaError_t allowed_in_capture(const char* call);
cudaError_t allowed_on(Stream& stream, const char* call);

// Work of all streams up to some place.
struct Work {
  Clocks clocks;
  Hangs hangs;
};
Work all_work();
// The host waits for it: the device comes this far, but for what hangs. An event passes when the
// host has waited for it or for something later, or has given the device nothing for a while.
void host_waits(const char* call, const Work& work);
// The work that comes next on `stream` does not end.
void hang(cudaStream_t stream, int communicator = -1);
void end_hangs_of(int communicator);

bool is_device_memory(const void* address);
bool is_pinned(const void* address);

int device_count();
size_t memory_bytes();

}  // namespace dry
