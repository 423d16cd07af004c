// Preloaded into a program, makes files whose path contains AXONN_STORAGE_FILES lie on one storage
// server that gives all processes together AXONN_STORAGE_RATE bytes per second. The processes share
// the clock in the file AXONN_STORAGE_CLOCK, of at least 8 bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr int64_t kSecond = 1'000'000'000;

bool is_stored(int descriptor) {
  const char* part = std::getenv("AXONN_STORAGE_FILES");
  if (part == nullptr) return false;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return size > 0 && std::string_view(path.data(), static_cast<size_t>(size)).find(part) != std::string_view::npos;
}

// The time at which the server has given all that was asked for.
std::atomic<int64_t>& clock_of_all() {
  static void* const shared = ::mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                                     ::open(std::getenv("AXONN_STORAGE_CLOCK"), O_RDWR), 0);
  return *static_cast<std::atomic<int64_t>*>(shared);
}

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

void wait_for(ssize_t bytes) {
  const double rate = std::atof(std::getenv("AXONN_STORAGE_RATE"));
  const auto takes = static_cast<int64_t>(static_cast<double>(bytes) / rate * static_cast<double>(kSecond));
  std::atomic<int64_t>& clock = clock_of_all();
  int64_t before = clock.load(), end = 0;
  do end = std::max(before, now()) + takes;
  while (!clock.compare_exchange_weak(before, end));
  const timespec until{.tv_sec = end / kSecond, .tv_nsec = end % kSecond};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

ssize_t given(int descriptor, ssize_t bytes) {
  if (bytes > 0 && is_stored(descriptor)) wait_for(bytes);
  return bytes;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ssize_t read(int descriptor, void* data, size_t size) {
  return given(descriptor, ::syscall(SYS_read, descriptor, data, size));
}

extern "C" __attribute__((visibility("default"))) ssize_t pread(int descriptor, void* data, size_t size, off_t place) {
  return given(descriptor, ::syscall(SYS_pread64, descriptor, data, size, place));
}

extern "C" __attribute__((visibility("default"))) ssize_t pread64(int descriptor, void* data, size_t size,
                                                                  off_t place) {
  return pread(descriptor, data, size, place);
}
