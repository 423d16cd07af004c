#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace axonn {

// Reads a message of protocol buffers, field by field (the wire format; nothing else is needed of
// them). The bytes must outlive it.
class WireReader {
 public:
  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // a varint, or the bits of a fixed number
    std::string_view bytes;  // a text or a message
  };

  // `name`: of the file, for errors.
  WireReader(std::string name, std::string_view bytes) : name_(std::move(name)), bytes_(bytes) {}

  // nullopt at the end. UserError when the bytes are no message, or end inside a field.
  std::optional<Field> next();

 private:
  uint64_t varint();
  std::string_view take(uint64_t size);
  uint64_t fixed(uint64_t size);
  void check(bool good) const;

  std::string name_;
  std::string_view bytes_;
  size_t place_ = 0;
};

}  // namespace axonn
