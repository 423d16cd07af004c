// NCCL: nothing moves. Every call is written down, so that the ranks' calls can be compared.
#include <atomic>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include <nccl.h>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Communicator {
  int number, rank, size;
};

thread_local int open_groups = 0;

Communicator& communicator_of(ncclComm_t comm) { return *reinterpret_cast<Communicator*>(comm); }

// `what` holds all that must be equal on every member.
ncclResult_t call(const char* name, const std::string& what, ncclComm_t comm, cudaStream_t stream) {
  if (fails(name)) return ncclUnhandledCudaError;
  write("nccl", join(name, what, communicator_of(comm).number, number_of(stream)));
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
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%d-%d", getpid(), made++);
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  static std::atomic<int> made = 0;
  if (fails("ncclCommInitRank")) return ncclInvalidUsage;
  if (hangs("ncclCommInitRank"))  // a member never comes
    for (;;) pause();
  auto* const communicator = new Communicator{made++, rank, size};
  *comm = reinterpret_cast<ncclComm_t>(communicator);
  write("communicator", join(communicator->number, id.internal, rank, size));
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  write("communicator-end", join(communicator_of(comm).number, "destroyed"));
  return ncclSuccess;
}
DRY_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  write("communicator-end", join(communicator_of(comm).number, "aborted"));
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
