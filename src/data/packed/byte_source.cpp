#include "data/packed/byte_source.hpp"

#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "data/packed/packed_sources.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.packed";

}  // namespace

FileSource::FileSource(const std::filesystem::path& path) : name_(shown_name(path.native())) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  AXONN_CHECK(descriptor_ >= 0, kWhere, "cannot read ", name_, ": ", reason_and_cure(errno));
}

FileSource::~FileSource() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t FileSource::read(std::span<char> into) {
  size_t filled = 0;
  while (filled < into.size()) {
    const ssize_t count = ::read(descriptor_, into.data() + filled, into.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    AXONN_CHECK(count >= 0, kWhere, "cannot read ", name_, ": ", reason_and_cure(errno));
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  used_ += static_cast<int64_t>(filled);
  return filled;
}

int64_t FileSource::size() const {
  struct stat status{};
  AXONN_CHECK(::fstat(descriptor_, &status) == 0, kWhere, "cannot read ", name_, ": ", reason_and_cure(errno));
  return S_ISREG(status.st_mode) ? status.st_size : 0;
}

void FileSource::rewind() {
  AXONN_CHECK(::lseek(descriptor_, 0, SEEK_SET) == 0, kWhere, "cannot read ", name_, ": ", reason_and_cure(errno));
  used_ = 0;
}

std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path) {
  auto file = std::make_unique<FileSource>(path);
  std::array<char, 4> head{};
  const std::string_view begin(head.data(), file->read(head));
  file->rewind();
  if (begin.starts_with("\x1f\x8b")) return gzip_source(std::move(file));
  if (begin.starts_with("\x28\xb5\x2f\xfd")) return zstd_source(std::move(file));
  return file;
}

}  // namespace axonn
