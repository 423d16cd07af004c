#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>

namespace axonn {

// A file mapped into memory, to be read only. It must not shrink while it is mapped.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);  // UserError when it cannot be read
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string name() const;  // for messages

  // The number at a byte, which need not be aligned. It must lie in the file.
  template <typename Number>
  Number at(size_t byte) const {
    static_assert(std::is_trivially_copyable_v<Number>);
    Number number;
    std::memcpy(&number, bytes_.data() + byte, sizeof number);
    return number;
  }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace axonn
