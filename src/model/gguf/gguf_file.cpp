#include "model/gguf/gguf_file.hpp"

#include <bit>
#include <cstddef>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include <c10/util/accumulate.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "numbers of GGUF files are little-endian");

constexpr const char* kWhere = "model.gguf";
constexpr int64_t kAlignment = 32;  // the usual one, which no key has to say
constexpr uint32_t kVersion = 3;
// Numbers of types of values.
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

template <typename Number>
void put(std::string& bytes, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, uint64_t{text.size()});
  bytes.append(text);
}

int64_t fill_after(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

uint32_t number_of(at::ScalarType dtype) {
  AXONN_ASSERT(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, "GGUF has no type for a ",
               c10::toString(dtype));
  return dtype == at::kFloat ? 0 : dtype == at::kHalf ? 1 : 30;
}

}  // namespace

void GgufHeader::begin_value(std::string_view key, uint32_t type) {
  ++num_values_;
  put_text(values_, key);
  put(values_, type);
}

void GgufHeader::begin_list(std::string_view key, uint32_t type, size_t count) {
  begin_value(key, kArray);
  put(values_, type);
  put(values_, uint64_t{count});
}

void GgufHeader::add_number(std::string_view key, int64_t value) {
  AXONN_CHECK(value >= 0 && value <= std::numeric_limits<uint32_t>::max(), kWhere, key,
              " must be a number of 32 bits in a GGUF file, got ", value, "; write a directory of Hugging Face's");
  begin_value(key, kUint32);
  put(values_, static_cast<uint32_t>(value));
}

void GgufHeader::add_real(std::string_view key, double value) {
  begin_value(key, kFloat32);
  put(values_, static_cast<float>(value));
}

void GgufHeader::add_flag(std::string_view key, bool value) {
  begin_value(key, kBool);
  put(values_, static_cast<uint8_t>(value));
}

void GgufHeader::add_text(std::string_view key, std::string_view value) {
  begin_value(key, kString);
  put_text(values_, value);
}

void GgufHeader::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_list(key, kString, values.size());
  for (const std::string& value : values) put_text(values_, value);
}

void GgufHeader::add_numbers(std::string_view key, std::span<const int32_t> values) {
  begin_list(key, kInt32, values.size());
  for (const int32_t value : values) put(values_, value);
}

void GgufHeader::add_reals(std::string_view key, std::span<const float> values) {
  begin_list(key, kFloat32, values.size());
  for (const float value : values) put(values_, value);
}

void GgufHeader::add_tensor(std::string_view name, std::span<const int64_t> shape, at::ScalarType dtype) {
  put_text(tensors_, name);
  put(tensors_, static_cast<uint32_t>(shape.size()));
  for (size_t dim = shape.size(); dim-- > 0;) put(tensors_, static_cast<uint64_t>(shape[dim]));  // the innermost first
  put(tensors_, number_of(dtype));
  put(tensors_, static_cast<uint64_t>(data_bytes_));
  tensor_bytes_.push_back(c10::multiply_integers(shape.begin(), shape.end()) *
                          static_cast<int64_t>(c10::elementSize(dtype)));
  data_bytes_ += tensor_bytes_.back() + fill_after(tensor_bytes_.back());
}

std::string GgufHeader::bytes() const {
  std::string all = "GGUF";
  put(all, kVersion);
  put(all, uint64_t{tensor_bytes_.size()});
  put(all, num_values_);
  all += values_;
  all += tensors_;
  all.append(static_cast<size_t>(fill_after(std::ssize(all))), '\0');
  return all;
}

GgufFile::GgufFile(fs::path path, bool overwrite) : path_(std::move(path)), partial_(path_.string() + ".partial") {
  AXONN_CHECK(!fs::is_directory(path_), kWhere, path_.string(), " is a directory; name a file, such as model.gguf");
  AXONN_CHECK(overwrite || !fs::exists(path_), kWhere, path_.string(),
              " exists; name another file, or add --overwrite");
}

// The object is whole before the file is, so that an error removes the file.
GgufFile::GgufFile(fs::path path, const GgufHeader& header, bool overwrite) : GgufFile(std::move(path), overwrite) {
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  file_.emplace(partial_);
  file_->write(header.bytes());
  tensor_bytes_ = header.tensor_bytes();
}

GgufFile::~GgufFile() {
  std::error_code gone;
  if (file_ && !finished_) fs::remove(partial_, gone);
}

void GgufFile::append(const at::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  AXONN_ASSERT(tensor_ < tensor_bytes_.size() && bytes == tensor_bytes_[tensor_] && tensor.is_contiguous(), "tensor ",
               tensor_, " of a GGUF file has ", bytes, " bytes, which its header does not say");
  ++tensor_;
  file_->write({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  file_->write(std::string(static_cast<size_t>(fill_after(bytes)), '\0'));
}

void GgufFile::finish() {
  AXONN_ASSERT(tensor_ == tensor_bytes_.size(), "a GGUF file lacks ", tensor_bytes_.size() - tensor_, " tensors");
  file_->finish();
  fs::rename(partial_, path_);
  disk::sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  finished_ = true;
}

}  // namespace axonn
