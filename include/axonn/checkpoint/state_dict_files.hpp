#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/safetensors.hpp"

// A state dict as Python's libraries write it: one safetensors file, or several with an index
// ("model.safetensors.index.json", whose weight_map names the file of each tensor).
namespace axonn::safetensors {

// Reads a file, or all files of an index (a path that ends in ".json"). UserError as from File,
// for an index without a weight_map, and if two tensors have one name.
class StateDictReader {
 public:
  struct Place {
    const File* file = nullptr;
    const File::Entry* entry = nullptr;
  };

  explicit StateDictReader(const std::filesystem::path& path);

  const std::map<std::string, Place>& places() const { return places_; }  // by name

 private:
  void add_index(const std::filesystem::path& path);
  void add(const std::filesystem::path& path);

  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, Place> places_;
};

// The tensor in the type of a file. UserError that names it if a number is too large for the type.
at::Tensor converted(const at::Tensor& tensor, at::ScalarType dtype, std::string_view name);

// Writes a tensor at a time. Files have the suffix ".partial" until finish() has renamed them, the
// index last; a writer that does not come so far removes them. BackendError as from StreamedFile.
class StateDictWriter {
 public:
  // `tensors`: name, type and shape of each, sorted by sort_for_file(). With shard_bytes > 0, the
  // tensors are in files "model-00001-of-00003.safetensors" of at most so many bytes each, or one
  // tensor; their index is `file` + ".index.json".
  StateDictWriter(std::vector<View> tensors, std::filesystem::path file, int64_t shard_bytes = 0);
  ~StateDictWriter();
  StateDictWriter(const StateDictWriter&) = delete;
  StateDictWriter& operator=(const StateDictWriter&) = delete;

  const std::vector<View>& tensors() const { return tensors_; }
  void append(std::span<const std::byte> bytes);  // all bytes of the next tensor
  void finish();                                  // all tensors are appended

 private:
  size_t begin_of(size_t part) const { return part == 0 ? 0 : ends_[part - 1]; }
  std::filesystem::path path_of(size_t part) const;
  void open();
  std::string index_text() const;

  std::vector<View> tensors_;
  std::filesystem::path file_;
  bool indexed_;
  std::vector<size_t> ends_;  // the first tensor behind each file
  int64_t total_bytes_ = 0;
  size_t part_ = 0, tensor_ = 0;
  std::optional<StreamedFile> out_;
};

}  // namespace axonn::safetensors
