#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace axonn {

// The bytes of a file from its beginning, unpacked if it is packed by gzip or zstd: its first bytes
// say so, not its name.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `into` as far as there are bytes, and returns their number; 0: the end. UserError for a
  // file that cannot be read, and for a packed one that is cut short or damaged.
  virtual size_t read(std::span<char> into) = 0;
  virtual int64_t used_bytes() const = 0;  // bytes of the file, as it lies on the disk
};

std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);  // UserError, as read()

}  // namespace axonn
