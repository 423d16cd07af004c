#include "core/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
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

}  // namespace

SyncedFile::SyncedFile(fs::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) refuse("create", path_);
  XXH64_state_t* state = XXH64_createState();
  XXH64_reset(state, 0);
  hash_ = state;
}

SyncedFile::~SyncedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  XXH64_freeState(static_cast<XXH64_state_t*>(hash_));
}

void SyncedFile::write(std::span<const std::byte> bytes) {
  XXH64_update(static_cast<XXH64_state_t*>(hash_), bytes.data(), bytes.size());
  bytes_ += std::ssize(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void SyncedFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void SyncedFile::finish() {
  if (::fsync(descriptor_) != 0) refuse("sync", path_);
  if (::close(std::exchange(descriptor_, -1)) != 0) refuse("close", path_);
}

uint64_t SyncedFile::xxh64() const { return XXH64_digest(static_cast<const XXH64_state_t*>(hash_)); }

void write_synced(const fs::path& path, std::string_view text) {
  SyncedFile file(path);
  file.write(text);
  file.finish();
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

uint64_t xxh64_of_file(const fs::path& path, const SeeBytes& see) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, "core.files", "cannot read ", shown_name(path.native()), ": ", why_not_read(path.native()));
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  std::vector<char> chunk(size_t{1} << 20);
  for (int64_t place = 0; in.read(chunk.data(), std::ssize(chunk)), in.gcount() > 0; place += in.gcount()) {
    const auto count = static_cast<size_t>(in.gcount());
    XXH64_update(&state, chunk.data(), count);
    if (see) see(place, std::as_bytes(std::span(chunk.data(), count)));
  }
  return XXH64_digest(&state);
}

uint64_t xxh64_of(std::string_view text) { return XXH64(text.data(), text.size(), 0); }

std::string hex(uint64_t value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value));
  return buffer;
}

}  // namespace axonn::disk
