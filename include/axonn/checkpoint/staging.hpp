#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>

namespace axonn {

// Memory for copies, for one Staging after another. First use of a page takes longer than the copy
// to it, so pages that are not in use stay with the process until the system wants them. Until then
// they count as resident, and as available on the host. One thread at a time.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory();
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  // More than 0 bytes; what is in them is lost. BackendError if no address space is left.
  std::byte* take(size_t bytes);
  void give_back();
  // Uses the pages of so many bytes for the first time, until `stop`. Virtual machines
  // may get them from their host then. Errors as take().
  void touch(size_t bytes, const std::stop_token& stop);

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Memory between tensors that training will change and the file to which a thread writes them. The
// thread calls pass(). The thread that trains calls wait_until_copied() before it changes a tensor.
// For one file.
class Staging {
 public:
  using Bytes = std::span<const std::byte>;

  // Most bytes that copies take; they take no more than the parts together. 0: nothing is copied,
  // and the tensors may be changed when everything is written. `memory` outlives it; without one,
  // the copies' memory is free when pass() returns.
  explicit Staging(int64_t bytes, CopyMemory* memory = nullptr);

  // Gives the bytes of all parts to `write`, in their order, in pieces. Copies come before writes
  // while there is room. Throws what `write` throws, and BackendError after give_up().
  void pass(std::span<const Bytes> parts, const std::function<void(Bytes)>& write);

  // Returns when pass() reads no part any more, or after release().
  void wait_until_copied();
  bool copied() const;
  void release();  // nothing will be read any more: pass() has thrown, or is not going to be called
  void give_up();  // pass() throws before its next piece

 private:
  void check_wanted() const;

  int64_t bytes_;
  CopyMemory* memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool copied_ = false;
  bool given_up_ = false;
};

}  // namespace axonn
