#include "axonn/checkpoint/staging.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "axonn/core/error.hpp"

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

// Memory from the system, in large pages where it has them: with small ones, first use of a page
// takes several times as long as the copy to it. All of it goes back to the system.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      throw BackendError(
          "checkpoint.staging",
          detail::concatenate("no memory for ", bytes, " bytes of copies: ", std::strerror(errno), "; try less"));
    data_ = static_cast<std::byte*>(data);
    ::madvise(data, bytes, MADV_HUGEPAGE);  // advice only
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return data_; }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
};

// The copies that are not written yet, in a ring.
class Ring {
 public:
  explicit Ring(int64_t bytes) : bytes_(bytes), pages_(static_cast<size_t>(bytes)) {}

  bool empty() const { return added_ == taken_; }
  // Bytes that fit now, without a gap.
  int64_t room() const { return std::min(bytes_ - (added_ - taken_), bytes_ - added_ % bytes_); }

  void add(Staging::Bytes piece) {
    std::memcpy(pages_.data() + added_ % bytes_, piece.data(), piece.size());
    added_ += std::ssize(piece);
  }

  // The oldest bytes. They stay until taken().
  Staging::Bytes oldest(int64_t most) const {
    const int64_t size = std::min({most, added_ - taken_, bytes_ - taken_ % bytes_});
    return {pages_.data() + taken_ % bytes_, static_cast<size_t>(size)};
  }
  void taken(Staging::Bytes piece) { taken_ += std::ssize(piece); }

 private:
  int64_t bytes_;
  int64_t added_ = 0, taken_ = 0;  // since the beginning
  Pages pages_;
};

}  // namespace

Staging::Staging(int64_t bytes) : bytes_(bytes) {
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
  Ring ring(std::min(bytes_, left));
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
