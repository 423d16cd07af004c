// NCCL: nothing moves. Every call is written down, so that the ranks' calls can be compared.
// $DRY_GPU_NCCL is the library's version, as NCCL writes it; otherwise that of its headers.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include <unistd.h>

#include <nccl.h>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Communicator {
  int number, rank, size;
  std::string id;
  int splits = 0;
  std::atomic<bool> is_split = false;  // now, by a call that has not returned
  cudaStream_t stream = nullptr;       // the newest work's
};

thread_local int open_groups = 0;

// Communicators, by the function that made them, and faults, by their names.
struct Made {
  std::mutex mutex;
  std::map<std::string, int, std::less<>> by;
};
Made& all_made() {
  static auto* const the = new Made;
  return *the;
}

void count(const std::string& what) {
  const std::lock_guard lock(all_made().mutex);
  ++all_made().by[what];
}

Communicator& communicator_of(ncclComm_t comm) { return *reinterpret_cast<Communicator*>(comm); }

ncclResult_t make(ncclComm_t* comm, const char* function, const std::string& id, int rank, int size) {
  static std::atomic<int> made = 0;
  if (fails(function)) return ncclInvalidUsage;
  if (hangs(function))  // a member never comes
    for (;;) pause();
  auto* const communicator = new Communicator{.number = made++, .rank = rank, .size = size, .id = id};
  *comm = reinterpret_cast<ncclComm_t>(communicator);
  write("communicator", join(communicator->number, id, rank, size, function));
  count(function);
  return ncclSuccess;
}

void end(ncclComm_t comm, const char* how) {
  if (communicator_of(comm).is_split) count("an end while it is split");
  write("communicator-end", join(communicator_of(comm).number, how));
}

// `what` holds all that must be equal on every member.
ncclResult_t call(const char* name, const std::string& what, ncclComm_t comm, cudaStream_t stream) {
  if (fails(name)) return ncclUnhandledCudaError;
  write("nccl", join(name, what, communicator_of(comm).number, number_of(stream)));
  communicator_of(comm).stream = stream;
  if (hangs(name)) hang(stream, communicator_of(comm).number);
  return work(stream) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

std::string data(size_t count, ncclDataType_t type) {
  return std::to_string(count) + " of type " + std::to_string(type);
}
std::string from(int root) { return " root " + std::to_string(root); }
std::string with(ncclRedOp_t op) { return " op " + std::to_string(op); }

}  // namespace
}  // namespace dry

using namespace dry;

DRY_EXPORT ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(number("DRY_GPU_NCCL", NCCL_VERSION_CODE));
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d-%d", getpid(), made++);
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return make(comm, "ncclCommInitRank", id.internal, rank, size);
}
// Each identity is of another process or call.
DRY_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int count, ncclUniqueId* ids,
                                                 ncclConfig_t*) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) names.insert(ids[i].internal);
  if (count > size || std::ssize(names) != count || names.contains("")) return ncclInvalidArgument;
  return make(comm, ("ncclCommInitRankScalable " + std::to_string(count)).c_str(), ids[0].internal, rank, size);
}
// All members of a communicator, on which nothing is under way, make another one.
DRY_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t*) {
  Communicator& parent = communicator_of(comm);
  const bool idle = parent.stream == nullptr || cudaStreamQuery(parent.stream) == cudaSuccess;
  if (color != 0 || key != parent.rank || !idle) return ncclInvalidUsage;
  parent.is_split = true;
  const ncclResult_t result =
      make(made, "ncclCommSplit", parent.id + "/" + std::to_string(parent.splits++), parent.rank, parent.size);
  parent.is_split = false;
  return result;
}
// For tests: how many communicators a function has made in this process, or how often a fault came.
DRY_EXPORT int dry_communicators_by(const char* function) {
  const std::lock_guard lock(all_made().mutex);
  const auto found = all_made().by.find(std::string_view(function));
  return found == all_made().by.end() ? 0 : found->second;
}
DRY_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  end(comm, "destroyed");
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  end(comm, "aborted");
  end_hangs_of(communicator_of(comm).number);
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* result) {
  *result = state() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  return ncclSuccess;
}
DRY_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclInvalidUsage ? "invalid usage" : "unhandled cuda error";
}
DRY_EXPORT const char* ncclGetLastError(ncclComm_t) { return "a fault of the dry GPU"; }
DRY_EXPORT ncclResult_t ncclGroupStart() {
  ++open_groups;
  write("group", "start");
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclGroupEnd() {
  --open_groups;
  write("group", "end");
  return ncclSuccess;
}
// For tests: groups of this thread that have begun and not ended.
DRY_EXPORT int dry_open_nccl_groups() { return open_groups; }

DRY_EXPORT ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream) {
  return call("ncclAllReduce", data(count, type) + with(op), comm, stream);
}
DRY_EXPORT ncclResult_t ncclReduceScatter(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                          ncclComm_t comm, cudaStream_t stream) {
  return call("ncclReduceScatter", data(count, type) + with(op), comm, stream);
}
DRY_EXPORT ncclResult_t ncclAllGather(const void*, void*, size_t count, ncclDataType_t type, ncclComm_t comm,
                                      cudaStream_t stream) {
  return call("ncclAllGather", data(count, type), comm, stream);
}
DRY_EXPORT ncclResult_t ncclBroadcast(const void*, void*, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                      cudaStream_t stream) {
  return call("ncclBroadcast", data(count, type) + from(root), comm, stream);
}
DRY_EXPORT ncclResult_t ncclReduce(const void*, void*, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                                   ncclComm_t comm, cudaStream_t stream) {
  return call("ncclReduce", data(count, type) + with(op) + from(root), comm, stream);
}
DRY_EXPORT ncclResult_t ncclSend(const void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                 cudaStream_t stream) {
  return call("ncclSend", data(count, type) + " to " + std::to_string(peer), comm, stream);
}
DRY_EXPORT ncclResult_t ncclRecv(void*, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                 cudaStream_t stream) {
  return call("ncclRecv", data(count, type) + " from " + std::to_string(peer), comm, stream);
}
