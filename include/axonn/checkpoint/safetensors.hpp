#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

// The public safetensors format: 8 bytes of header length (little-endian), a JSON header, the bytes
// of the tensors.
namespace axonn::safetensors {

// "F64" "F32" "F16" "BF16" "I64" "I32" "I16" "I8" "U8" "BOOL". UserError for any other type or
// name.
std::string_view dtype_name(c10::ScalarType type);
c10::ScalarType scalar_type(std::string_view dtype);

// A tensor to write: row-major bytes, one part after the other, that live until write() returns.
struct View {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> shape;
  std::vector<std::span<const std::byte>> parts;
};

using Metadata = std::map<std::string, std::string>;

// Writes the file and syncs it to the disk. The data starts at a multiple of 8 and wider types come
// first, so every tensor is aligned to its element size. Throws UserError if a name occurs twice or
// the bytes do not agree with the shape, and BackendError if the system cannot write the file.
void write(const std::filesystem::path& path, std::span<const View> tensors, const Metadata& metadata = {});

// The order of tensors in a file: wider types first, else as given.
void sort_for_file(std::vector<View>& tensors);

// A file whose tensors are written one after the other, so that they need not be in memory at once.
class StreamedFile {
 public:
  // `tensors` have no parts, and are sorted for the file. UserError if a name occurs twice.
  StreamedFile(const std::filesystem::path& path, std::span<const View> tensors, const Metadata& metadata = {});
  ~StreamedFile();
  StreamedFile(const StreamedFile&) = delete;
  StreamedFile& operator=(const StreamedFile&) = delete;
  void append(std::span<const std::byte> bytes);  // the next bytes of the data; BackendError as write()
  void finish();                                  // syncs the file

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A file open for reading. The constructor checks that the header lies within the file, that every
// shape agrees with its bytes, and that the tensors cover the data exactly, without overlap.
// Otherwise, or if the file is truncated, it throws a UserError that names the file.
class File {
 public:
  struct Entry {
    std::string name;
    c10::ScalarType dtype = c10::ScalarType::Float;
    std::vector<int64_t> shape;
    int64_t begin = 0;  // bytes from the start of the data
    int64_t end = 0;
    int64_t size_bytes() const { return end - begin; }
  };

  explicit File(std::filesystem::path path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their data
  const Entry* find(std::string_view name) const;                 // nullptr: no such tensor
  const Metadata& metadata() const { return metadata_; }
  void read(const Entry& entry, std::span<std::byte> into) const;                    // into.size() = entry.size_bytes()
  void read(const Entry& entry, int64_t first, std::span<std::byte> into) const;     // bytes from `first` of it
  int64_t begin_of(const Entry& entry) const { return data_offset_ + entry.begin; }  // from the start of the file

 private:
  void parse_header(std::string_view header, int64_t data_bytes);
  void read_at(int64_t place, std::span<std::byte> into) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t data_offset_ = 0;
  std::vector<Entry> entries_;
  Metadata metadata_;
};

}  // namespace axonn::safetensors
