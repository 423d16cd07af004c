#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

// Files whose content is on the disk before the next step begins. A failed system call is a
// BackendError with the system's text.
namespace axonn::disk {

// xxh64 of bytes that come in pieces.
class Hash64 {
 public:
  Hash64();
  ~Hash64();
  Hash64(Hash64&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Hash64& operator=(Hash64&&) = delete;

  void update(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  void* state_;
};

// A new file; an existing file of that name is truncated.
class SyncedFile {
 public:
  explicit SyncedFile(std::filesystem::path path);
  ~SyncedFile();
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void finish();  // fsync and close; do not trust a file without it

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A file that several processes write at once, each at its own places. Whoever comes first makes
// it. Its folder may be seen late (kLateSeconds).
class SharedFile {
 public:
  explicit SharedFile(std::filesystem::path path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write_at(int64_t place, std::span<const std::byte> bytes);
  void sync();    // returns when all that this process has written is on the disk
  void finish();  // the same, and close

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// A file open for reading, which may be seen late. Failures are UserErrors.
class OpenFile {
 public:
  explicit OpenFile(std::filesystem::path path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void read_at(int64_t place, std::span<std::byte> into) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// On a network file system, a file that another host has just made can be missing for some seconds.
// Whoever opens it tries so long.
inline constexpr double kLateSeconds = 5;

void write_synced(const std::filesystem::path& path, std::string_view text);
// The same for a file that others may read: they see the old text or the new one. It is written
// beside the file, as `path`.partial, which then takes its name.
void replace_synced(const std::filesystem::path& path, std::string_view text);
void sync_directory(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);  // UserError when it cannot be read
uint64_t xxh64_of_file(const std::filesystem::path& path);
uint64_t xxh64_of(std::string_view text);
std::string hex(uint64_t value);  // 16 digits

}  // namespace axonn::disk
