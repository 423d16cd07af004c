#include "axonn/checkpoint/staging.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "core/large_pages.hpp"

namespace axonn {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// Walks through the bytes of the parts.
class Source {
 public:
  explicit Source(std::span<const Staging::Bytes> parts) : parts_(parts) {}

  // The next bytes of one part, at most so many. There must be some left.
  Staging::Bytes next(int64_t most) {
    while (taken_ == std::ssize(parts_.front())) {
      parts_ = parts_.subspan(1);
      taken_ = 0;
    }
    const int64_t size = std::min(most, std::ssize(parts_.front()) - taken_);
    const auto piece = parts_.front().subspan(static_cast<size_t>(taken_), static_cast<size_t>(size));
    taken_ += size;
    return piece;
  }

 private:
  std::span<const Staging::Bytes> parts_;
  int64_t taken_ = 0;  // bytes of the first part
};

// The copies that are not written yet, in a ring.
class Ring {
 public:
  Ring(int64_t bytes, CopyMemory& memory)
      : bytes_(bytes), memory_(memory), data_(memory.take(static_cast<size_t>(bytes))) {}
  ~Ring() { memory_.give_back(); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  bool empty() const { return added_ == taken_; }
  // Bytes that fit now, without a gap.
  int64_t room() const { return std::min(bytes_ - (added_ - taken_), bytes_ - added_ % bytes_); }

  void add(Staging::Bytes piece) {
    std::memcpy(data_ + added_ % bytes_, piece.data(), piece.size());
    added_ += std::ssize(piece);
  }

  // The oldest bytes. They stay until taken().
  Staging::Bytes oldest(int64_t most) const {
    const int64_t size = std::min({most, added_ - taken_, bytes_ - taken_ % bytes_});
    return {data_ + taken_ % bytes_, static_cast<size_t>(size)};
  }
  void taken(Staging::Bytes piece) { taken_ += std::ssize(piece); }

 private:
  int64_t bytes_;
  int64_t added_ = 0, taken_ = 0;  // since the beginning
  CopyMemory& memory_;
  std::byte* data_;
};

}  // namespace

// With small pages, first use of one takes several times as long as the copy to it. Memory that
// grows keeps its pages.
std::byte* CopyMemory::take(size_t bytes) {
  if (bytes <= bytes_) return data_;
  void* const data = data_ != nullptr
                         ? ::mremap(data_, bytes_, bytes, MREMAP_MAYMOVE)
                         : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw BackendError(
        "checkpoint.staging",
        detail::concatenate("no memory for ", bytes, " bytes of copies: ", std::strerror(errno), "; try less"));
  advise_large_pages(data, bytes);
  bytes_ = bytes;
  return data_ = static_cast<std::byte*>(data);
}

void CopyMemory::touch(size_t bytes, const std::stop_token& stop) {
  std::byte* const data = take(bytes);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < bytes && !stop.stop_requested(); at += page) data[at] = std::byte{1};
  give_back();
}

void CopyMemory::give_back() {
  if (data_ != nullptr) ::madvise(data_, bytes_, MADV_FREE);  // the system takes pages when it needs them
}

CopyMemory::~CopyMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Staging::Staging(int64_t bytes, CopyMemory* memory) : bytes_(bytes), memory_(memory) {
  AXONN_CHECK(bytes >= 0, "checkpoint.staging", "memory for copies must be at least 0 bytes, got ", bytes);
}

void Staging::pass(std::span<const Bytes> parts, const std::function<void(Bytes)>& write) {
  Source source(parts);
  int64_t left = 0;  // bytes that are read from the parts later
  for (const Bytes& part : parts) left += std::ssize(part);
  while (bytes_ == 0 && left > 0) {
    check_wanted();
    const Bytes piece = source.next(kPieceBytes);
    write(piece);
    left -= std::ssize(piece);
  }
  if (left == 0) return release();
  CopyMemory own;
  Ring ring(std::min(bytes_, left), memory_ != nullptr ? *memory_ : own);
  while (left > 0 || !ring.empty()) {
    check_wanted();
    if (left > 0 && ring.room() > 0) {
      const Bytes piece = source.next(std::min(kPieceBytes, ring.room()));
      ring.add(piece);
      left -= std::ssize(piece);
      if (left == 0) release();
    } else {
      const Bytes piece = ring.oldest(kPieceBytes);
      write(piece);
      ring.taken(piece);
    }
  }
}

void Staging::wait_until_copied() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return copied_; });
}

bool Staging::copied() const {
  const std::lock_guard lock(mutex_);
  return copied_;
}

void Staging::release() {
  const std::lock_guard lock(mutex_);
  copied_ = true;
  changed_.notify_all();
}

void Staging::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
}

void Staging::check_wanted() const {
  const std::lock_guard lock(mutex_);
  if (given_up_) throw BackendError("checkpoint.staging", "the save was given up; see the first error");
}

}  // namespace axonn
