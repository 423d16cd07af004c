#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/files.hpp"

// The form of GGUF files, version 3: a header of typed keys and of the tensors' names, types and
// places, then their data. Numbers are little-endian, texts have their length before them.
namespace axonn {

class GgufHeader {
 public:
  // A key occurs once.
  void add_number(std::string_view key, int64_t value);  // UserError above 2^32 - 1, or below 0
  void add_real(std::string_view key, double value);     // as fp32
  void add_flag(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_numbers(std::string_view key, std::span<const int32_t> values);
  void add_reals(std::string_view key, std::span<const float> values);

  // The next tensor of the data: fp32, fp16 or bf16. `shape` has the outermost dim first.
  void add_tensor(std::string_view name, std::span<const int64_t> shape, at::ScalarType dtype);

  std::string bytes() const;  // with what fills up to the data
  const std::vector<int64_t>& tensor_bytes() const { return tensor_bytes_; }

 private:
  void begin_value(std::string_view key, uint32_t type);
  void begin_list(std::string_view key, uint32_t type, size_t count);

  std::string values_, tensors_;
  uint64_t num_values_ = 0;
  int64_t data_bytes_ = 0;
  std::vector<int64_t> tensor_bytes_;
};

// Writes a tensor at a time. The file has the suffix ".partial" until finish(); a writer that does
// not come so far removes it.
class GgufFile {
 public:
  // UserError if `path` is a directory, or exists, unless `overwrite`; BackendError if the system
  // cannot write, also from the others.
  GgufFile(std::filesystem::path path, const GgufHeader& header, bool overwrite);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  void append(const at::Tensor& tensor);  // the next one of the header; contiguous, on the CPU
  void finish();                          // all tensors are appended

 private:
  GgufFile(std::filesystem::path path, bool overwrite);

  std::filesystem::path path_, partial_;
  std::optional<disk::SyncedFile> file_;
  std::vector<int64_t> tensor_bytes_;
  size_t tensor_ = 0;
  bool finished_ = false;
};

}  // namespace axonn
