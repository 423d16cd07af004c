#include "core/files.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn::disk {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string_view what, const fs::path& path) {
  const std::string reason = reason_and_cure(errno);
  throw BackendError("core.files", detail::concatenate("cannot ", what, " ", shown_name(path.native()), ": ", reason));
}

void sync_and_close(int& descriptor, const fs::path& path) {
  if (::fsync(descriptor) != 0) refuse("sync", path);
  if (::close(std::exchange(descriptor, -1)) != 0) refuse("close", path);
}

int open_late(const fs::path& path, int flags) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kLateSeconds);
  for (;;) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (descriptor >= 0 || errno != ENOENT || std::chrono::steady_clock::now() > end) return descriptor;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Hash64::Hash64() : state_(XXH64_createState()) { XXH64_reset(static_cast<XXH64_state_t*>(state_), 0); }
Hash64::~Hash64() { XXH64_freeState(static_cast<XXH64_state_t*>(state_)); }
void Hash64::update(std::span<const std::byte> bytes) {
  XXH64_update(static_cast<XXH64_state_t*>(state_), bytes.data(), bytes.size());
}
uint64_t Hash64::digest() const { return XXH64_digest(static_cast<const XXH64_state_t*>(state_)); }

SyncedFile::SyncedFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse("create", path_);
}

SyncedFile::~SyncedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SyncedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void SyncedFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void SyncedFile::finish() { sync_and_close(descriptor_, path_); }

SharedFile::SharedFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = open_late(path_, O_WRONLY | O_CREAT);
  if (descriptor_ < 0) refuse("create", path_);
}

SharedFile::~SharedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SharedFile::write_at(int64_t place, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), place);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
    place += written;
  }
}

void SharedFile::sync() {
  if (::fsync(descriptor_) != 0) refuse("sync", path_);
}

void SharedFile::finish() { sync_and_close(descriptor_, path_); }

OpenFile::OpenFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = open_late(path_, O_RDONLY);
  AXONN_CHECK(descriptor_ >= 0, "core.files", "cannot open ", shown_name(path_.native()), ": ", reason_and_cure(errno));
}

OpenFile::~OpenFile() { ::close(descriptor_); }

void OpenFile::read_at(int64_t place, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(descriptor_, into.data(), into.size(), place);
    if (count < 0 && errno == EINTR) continue;
    AXONN_CHECK(count > 0, "core.files", "cannot read ", shown_name(path_.native()), ": ",
                count == 0 ? "it ends too early; copy it again" : reason_and_cure(errno));
    into = into.subspan(static_cast<size_t>(count));
    place += count;
  }
}

void write_synced(const fs::path& path, std::string_view text) {
  SyncedFile file(path);
  file.write(text);
  file.finish();
}

void replace_synced(const fs::path& path, std::string_view text) {
  const fs::path beside(path.native() + ".partial");
  write_synced(beside, text);
  fs::rename(beside, path);
}

void sync_directory(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) refuse("open", path);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;  // some file systems cannot sync a directory
  ::close(descriptor);
  if (!synced) refuse("sync", path);
}

std::string read_text(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  std::string text(error ? 0 : size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  AXONN_CHECK(!error && in, "core.files", "cannot read ", shown_name(path.native()), ": ", why_not_read(path.native()));
  return text;
}

uint64_t xxh64_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, "core.files", "cannot read ", shown_name(path.native()), ": ", why_not_read(path.native()));
  Hash64 hash;
  std::vector<char> chunk(size_t{1} << 20);
  while (in.read(chunk.data(), std::ssize(chunk)), in.gcount() > 0)
    hash.update(std::as_bytes(std::span(chunk.data(), static_cast<size_t>(in.gcount()))));
  return hash.digest();
}

uint64_t xxh64_of(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

std::string hex(uint64_t value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value));
  return buffer;
}

}  // namespace axonn::disk
