#include "axonn/checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "core/files.hpp"

namespace axonn::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMostHeaderBytes = int64_t{1} << 30;

int64_t size_of(const View& tensor) {
  int64_t bytes = 0;
  for (const auto& part : tensor.parts) bytes += std::ssize(part);
  return bytes;
}

// Wider elements first, otherwise in the given order.
std::vector<const View*> in_file_order(std::span<const View> tensors) {
  std::vector<const View*> order;
  for (const View& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::greater(), [](const View* tensor) { return c10::elementSize(tensor->dtype); });
  return order;
}

void write_header(disk::SyncedFile& file, const std::string& header) {
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
}

// Whether a file that begins with these 8 bytes is PyTorch's zip archive or pickle. Neither is the
// length of a header, because it is larger than any.
bool is_of_torch_save(uint64_t first) {
  const bool is_zip = (first & 0xffff'ffff) == 0x0403'4b50 && first >> 32 != 0;
  const bool is_pickle = first == 0x469c'fc6c'0a8a'0280;
  return is_zip || is_pickle;
}

}  // namespace

void sort_for_file(std::vector<View>& tensors) {
  std::ranges::stable_sort(tensors, std::greater(), [](const View& each) { return c10::elementSize(each.dtype); });
}

struct StreamedFile::Impl {
  explicit Impl(const std::filesystem::path& path) : file(path) {}
  disk::SyncedFile file;
  int64_t left = 0;  // bytes
};

StreamedFile::StreamedFile(const std::filesystem::path& path, std::span<const View> tensors, const Metadata& metadata) {
  const auto order = in_file_order(tensors);
  const std::string header = header_of(order, metadata);
  impl_ = std::make_unique<Impl>(path);
  for (size_t i = 0; i < order.size(); ++i) {
    AXONN_ASSERT(order[i] == &tensors[i], "tensors of a streamed file are not sorted for it");
    impl_->left += *bytes_of(order[i]->shape, order[i]->dtype);
  }
  write_header(impl_->file, header);
}

StreamedFile::~StreamedFile() = default;

void StreamedFile::append(std::span<const std::byte> bytes) {
  impl_->left -= std::ssize(bytes);
  impl_->file.write(bytes);
}

void StreamedFile::finish() {
  AXONN_ASSERT(impl_->left == 0, "a streamed file lacks ", impl_->left, " bytes");
  impl_->file.finish();
}

void write(const std::filesystem::path& path, std::span<const View> tensors, const Metadata& metadata) {
  for (const View& tensor : tensors)
    AXONN_CHECK(bytes_of(tensor.shape, tensor.dtype) == size_of(tensor), "checkpoint.safetensors", "tensor '",
                tensor.name, "' of type ", dtype_name(tensor.dtype), " has ", size_of(tensor),
                " bytes, which its shape does not");
  std::vector<View> order(tensors.begin(), tensors.end());
  sort_for_file(order);
  StreamedFile file(path, order, metadata);
  for (const View& tensor : order)
    for (const auto& part : tensor.parts) file.append(part);
  file.finish();
}

File::File(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  AXONN_CHECK(descriptor_ >= 0, "checkpoint.safetensors", "cannot open ", path_.string(), ": ", reason_and_cure(errno));
  try {
    struct stat status{};
    const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    AXONN_CHECK(regular && status.st_size >= kLengthBytes, "checkpoint.safetensors", path_.string(),
                " is too short for a safetensors file");
    uint64_t length = 0;
    read_at(0, std::as_writable_bytes(std::span(&length, 1)));
    const std::string name = path_.string();
    AXONN_CHECK(!is_of_torch_save(length), "checkpoint.safetensors", name,
                " was written by torch.save; convert it in Python: safetensors.torch.save_file(torch.load('", name,
                "', weights_only=True), '", path_.stem().string(), ".safetensors')");
    const int64_t rest = status.st_size - kLengthBytes;
    AXONN_CHECK(length <= static_cast<uint64_t>(std::min(rest, kMostHeaderBytes)), "checkpoint.safetensors",
                path_.string(), ": the header of ", length, " bytes does not fit in the file of ", status.st_size,
                " bytes");
    std::string header(length, '\0');
    read_at(kLengthBytes, std::as_writable_bytes(std::span(header)));
    data_offset_ = kLengthBytes + static_cast<int64_t>(length);
    parse_header(header, status.st_size - data_offset_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

File::~File() { ::close(descriptor_); }

const File::Entry* File::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

void File::read(const Entry& entry, std::span<std::byte> into) const {
  AXONN_ASSERT(std::ssize(into) == entry.size_bytes(), "buffer of ", into.size(), " bytes for tensor ", entry.name);
  read(entry, 0, into);
}

void File::read(const Entry& entry, int64_t first, std::span<std::byte> into) const {
  AXONN_ASSERT(first >= 0 && first + std::ssize(into) <= entry.size_bytes(), first, " + ", into.size(),
               " bytes of tensor ", entry.name);
  read_at(data_offset_ + entry.begin + first, into);
}

void File::read_at(int64_t place, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(descriptor_, into.data(), into.size(), place);
    if (count < 0 && errno == EINTR) continue;
    AXONN_CHECK(count > 0, "checkpoint.safetensors", "cannot read ", path_.string(), ": ",
                count == 0 ? "it ends too early" : std::strerror(errno));
    into = into.subspan(static_cast<size_t>(count));
    place += count;
  }
}

}  // namespace axonn::safetensors
