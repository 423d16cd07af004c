#include "axonn/checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json_depth.hpp"
#include "axonn/core/sentence.hpp"
#include "core/files.hpp"

namespace axonn::safetensors {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kAlignment = 8;
constexpr int64_t kMostHeaderBytes = int64_t{1} << 30;

struct TypeName {
  c10::ScalarType type;
  std::string_view name;
};
constexpr std::array<TypeName, 10> kTypes = {{{c10::ScalarType::Double, "F64"},
                                              {c10::ScalarType::Float, "F32"},
                                              {c10::ScalarType::Half, "F16"},
                                              {c10::ScalarType::BFloat16, "BF16"},
                                              {c10::ScalarType::Long, "I64"},
                                              {c10::ScalarType::Int, "I32"},
                                              {c10::ScalarType::Short, "I16"},
                                              {c10::ScalarType::Char, "I8"},
                                              {c10::ScalarType::Byte, "U8"},
                                              {c10::ScalarType::Bool, "BOOL"}}};

// Elements of the shape times the element size; nullopt when a dim is negative or the product
// overflows.
std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, c10::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

std::optional<int64_t> whole_number(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return value.get<int64_t>();
}

std::optional<std::vector<int64_t>> whole_numbers(const Json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& item : list) {
    const auto number = whole_number(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

int64_t size_of(const View& tensor) {
  int64_t bytes = 0;
  for (const Staging::Bytes& part : tensor.parts) bytes += std::ssize(part);
  return bytes;
}

// Wider elements first, otherwise in the given order.
std::vector<const View*> in_file_order(std::span<const View> tensors) {
  std::vector<const View*> order;
  for (const View& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::greater(), [](const View* tensor) { return c10::elementSize(tensor->dtype); });
  return order;
}

std::string header_of(std::span<const View* const> tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names = {"__metadata__"};
  int64_t offset = 0;
  for (const View* tensor : tensors) {
    AXONN_CHECK(names.insert(tensor->name).second, "checkpoint.safetensors", "tensor name '", tensor->name,
                "' cannot be used twice in a file");
    const std::optional<int64_t> bytes = bytes_of(tensor->shape, tensor->dtype);
    AXONN_ASSERT(bytes.has_value(), "tensor ", tensor->name, " has a shape that no tensor has");
    const int64_t end = offset + *bytes;
    header[tensor->name] = {
        {"dtype", dtype_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

void write_header(disk::SyncedFile& file, const std::string& header) {
  const uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
}

// nlohmann silently keeps the last of two equal keys.
Json parse_unique(std::string_view header, const std::filesystem::path& path) {
  std::set<std::string> names;
  const auto unique = [&](int depth, Json::parse_event_t event, Json& key) {
    if (depth == 1 && event == Json::parse_event_t::key)
      AXONN_CHECK(names.insert(key.get<std::string>()).second, "checkpoint.safetensors", path.string(), ": tensor ",
                  key.dump(), " occurs twice");
    return true;
  };
  AXONN_CHECK(is_shallow_json(header), "checkpoint.safetensors", path.string(), ": the header nests deeper than ",
              kMostJsonDepth, " levels; copy the file again");
  Json parsed = Json::parse(header, unique, /*allow_exceptions=*/false);
  AXONN_CHECK(parsed.is_object(), "checkpoint.safetensors", path.string(), ": the header is not a JSON object");
  return parsed;
}

Metadata parse_metadata(const Json& value, const std::filesystem::path& path) {
  Metadata metadata;
  AXONN_CHECK(value.is_object(), "checkpoint.safetensors", path.string(), ": __metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    AXONN_CHECK(text.is_string(), "checkpoint.safetensors", path.string(),
                ": __metadata__ holds something else than texts");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

File::Entry parse_entry(const std::string& name, const Json& value, const std::filesystem::path& path) {
  const auto complain = [&](bool fine, std::string_view what) {
    AXONN_CHECK(fine, "checkpoint.safetensors", path.string(), ": tensor ", Json(name).dump(), " ", what);
  };
  const auto has = [&](const char* key) { return value.is_object() && value.contains(key); };
  complain(has("dtype") && has("shape") && has("data_offsets") && value["dtype"].is_string(),
           "lacks a dtype, a shape or data_offsets");
  const auto dtype = value["dtype"].get<std::string>();
  const auto* known = std::ranges::find(kTypes, dtype, &TypeName::name);
  complain(known != kTypes.end(), "has a dtype that is not known here: " + dtype);
  const auto shape = whole_numbers(value["shape"]), offsets = whole_numbers(value["data_offsets"]);
  complain(shape.has_value(), "has a shape that is not a list of whole numbers");
  complain(offsets && offsets->size() == 2 && offsets->front() <= offsets->back(),
           "has data_offsets that are not [begin, end]");
  File::Entry entry{name, known->type, *shape, offsets->front(), offsets->back()};
  complain(bytes_of(entry.shape, entry.dtype) == entry.size_bytes(), "has a shape that does not agree with its bytes");
  return entry;
}

// Whether a file that begins with these 8 bytes is PyTorch's zip archive or pickle. Neither is the
// length of a header, because it is larger than any.
bool is_of_torch_save(uint64_t first) {
  const bool is_zip = (first & 0xffff'ffff) == 0x0403'4b50 && first >> 32 != 0;
  const bool is_pickle = first == 0x469c'fc6c'0a8a'0280;
  return is_zip || is_pickle;
}

}  // namespace

std::string_view dtype_name(c10::ScalarType type) {
  const auto* found = std::ranges::find(kTypes, type, &TypeName::type);
  AXONN_CHECK(found != kTypes.end(), "checkpoint.safetensors", "tensors of type ", c10::toString(type),
              " cannot be stored");
  return found->name;
}

c10::ScalarType scalar_type(std::string_view dtype) {
  const auto* found = std::ranges::find(kTypes, dtype, &TypeName::name);
  AXONN_CHECK(found != kTypes.end(), "checkpoint.safetensors", "dtype '", dtype, "' is not known");
  return found->type;
}

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

Written write(const std::filesystem::path& path, std::span<const View> tensors, const Metadata& metadata,
              Staging* staging) {
  const auto order = in_file_order(tensors);
  for (const View* tensor : order)
    AXONN_CHECK(bytes_of(tensor->shape, tensor->dtype) == size_of(*tensor), "checkpoint.safetensors", "tensor '",
                tensor->name, "' of type ", dtype_name(tensor->dtype), " has ", size_of(*tensor),
                " bytes, which its shape does not");
  disk::SyncedFile file(path);
  write_header(file, header_of(order, metadata));
  std::vector<Staging::Bytes> parts;
  for (const View* tensor : order) parts.insert(parts.end(), tensor->parts.begin(), tensor->parts.end());
  Staging none(0);
  (staging != nullptr ? *staging : none).pass(parts, [&](Staging::Bytes bytes) { file.write(bytes); });
  file.finish();
  return {file.bytes(), file.xxh64()};
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

void File::parse_header(std::string_view header, int64_t data_bytes) {
  const Json parsed = parse_unique(header, path_);
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      metadata_ = parse_metadata(value, path_);
    } else {
      entries_.push_back(parse_entry(name, value, path_));
    }
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  int64_t end = 0;
  for (const Entry& entry : entries_) {
    AXONN_CHECK(entry.begin == end, "checkpoint.safetensors", path_.string(), ": tensor ", Json(entry.name).dump(),
                " begins at byte ", entry.begin, " of the data, the one before it ends at ", end);
    end = entry.end;
  }
  AXONN_CHECK(end == data_bytes, "checkpoint.safetensors", path_.string(), ": the tensors take ", end,
              " bytes, the file holds ", data_bytes, " bytes of data");
}

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

void File::read_at(int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(descriptor_, into.data(), into.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    AXONN_CHECK(count > 0, "checkpoint.safetensors", "cannot read ", path_.string(), ": ",
                count == 0 ? "it ends too early" : std::strerror(errno));
    into = into.subspan(static_cast<size_t>(count));
    offset += count;
  }
}

}  // namespace axonn::safetensors
