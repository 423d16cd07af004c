#include "transport/node/shared_region.hpp"

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "transport/node/node_memory.hpp"

namespace axonn {
namespace {

constexpr size_t kTokenPlace = NodeMemory::kRegionBytes - sizeof(uint64_t);

[[noreturn]] void fail(const std::string& call) {
  throw BackendError("comm.shared_region", detail::concatenate(call, " failed: ", std::strerror(errno)));
}

uint64_t process_namespace() {
  struct stat found{};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

}  // namespace

OwnRegion::OwnRegion(int rank) {
  address_ = {.rank = rank,
              .process = getpid(),
              .file = memfd_create("axonn", MFD_CLOEXEC),
              .token = 0,
              .processes = process_namespace()};
  if (address_.file < 0) fail("memfd_create");
  try {
    if (ftruncate(address_.file, static_cast<off_t>(NodeMemory::kRegionBytes)) != 0) fail("ftruncate");
    region_ = map_region(address_.file);
  } catch (...) {
    close(address_.file);
    throw;
  }
  std::random_device random;
  address_.token = (uint64_t{random()} << 32) | random();
  std::memcpy(region_.get() + kTokenPlace, &address_.token, sizeof address_.token);
}

OwnRegion::~OwnRegion() { close(address_.file); }

std::shared_ptr<std::byte> open_region(const RegionAddress& address) {
  if (address.processes != process_namespace())
    throw BackendError("comm.shared_region",
                       detail::concatenate("rank ", address.rank,
                                           " is in another container than other ranks of its "
                                           "node; start one container per node with all its ranks, or give the "
                                           "containers one space of processes (docker and podman: --pid=host)"));
  const std::string path = detail::concatenate("/proc/", address.process, "/fd/", address.file);
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // in another container it may be a FIFO
  if (file < 0) fail("open(" + path + ")");
  std::shared_ptr<std::byte> region;
  try {
    if (lseek(file, 0, SEEK_END) != static_cast<off_t>(NodeMemory::kRegionBytes)) {
      errno = ENOENT;
      fail("finding the shared region of rank " + std::to_string(address.rank));
    }
    region = map_region(file, /*writable=*/false);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
  uint64_t token = 0;
  std::memcpy(&token, region.get() + kTokenPlace, sizeof token);
  if (token != address.token)
    throw BackendError("comm.shared_region",
                       detail::concatenate(path, " is not the memory of rank ", address.rank, "; another container?"));
  return region;
}

}  // namespace axonn
