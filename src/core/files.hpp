#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

// Files whose content is on the disk before the next step begins. A failed system call is a
// BackendError with the system's text.
namespace axonn::disk {

// A new file; an existing file of that name is truncated. Counts and hashes the bytes that are
// written.
class SyncedFile {
 public:
  explicit SyncedFile(std::filesystem::path path);
  ~SyncedFile();
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void finish();  // fsync and close; do not trust a file without it
  int64_t bytes() const { return bytes_; }
  uint64_t xxh64() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
  void* hash_ = nullptr;
};

void write_synced(const std::filesystem::path& path, std::string_view text);
void sync_directory(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);  // UserError when it cannot be read
// Streams the file, and shows every part of it on the way.
using SeeBytes = std::function<void(int64_t place, std::span<const std::byte> bytes)>;
uint64_t xxh64_of_file(const std::filesystem::path& path, const SeeBytes& see = {});
uint64_t xxh64_of(std::string_view text);
std::string hex(uint64_t value);  // 16 digits

}  // namespace axonn::disk
