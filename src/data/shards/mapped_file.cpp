#include "data/shards/mapped_file.hpp"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  int error = descriptor < 0 || ::fstat(descriptor, &status) != 0 ? errno : 0;
  const bool regular = error == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    void* const place = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (place == MAP_FAILED)
      error = errno;
    else
      bytes_ = {static_cast<const std::byte*>(place), size};
  }
  if (descriptor >= 0) ::close(descriptor);
  AXONN_CHECK(error == 0, "data.shards", "cannot read ", name(), ": ", reason_and_cure(error));
  AXONN_CHECK(regular, "data.shards", name(), " is no file; give a file of tokens");
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string MappedFile::name() const { return shown_name(path_.native()); }

}  // namespace axonn
