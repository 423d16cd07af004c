#include "data/tokenizer/files/wire_reader.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

void WireReader::check(bool good) const {
  AXONN_CHECK(good, "data.tokenizer", name_, " is no model of SentencePiece, or is cut short, at byte ", place_, " of ",
              bytes_.size(), " of a part; download it again");
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  check(false);
  return 0;
}

std::string_view WireReader::take(uint64_t size) {
  check(size <= bytes_.size() - place_);
  const std::string_view taken = bytes_.substr(place_, size);
  place_ += size;
  return taken;
}

uint64_t WireReader::fixed(uint64_t size) {
  uint64_t value = 0;
  int shift = 0;
  for (const char byte : take(size)) {
    value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
    shift += 8;
  }
  return value;
}

std::optional<WireReader::Field> WireReader::next() {
  if (place_ == bytes_.size()) return std::nullopt;
  const uint64_t key = varint();
  const uint64_t kind = key & 7;
  check(key >> 3 > 0 && key >> 3 < (uint64_t{1} << 29));
  Field field = {.number = static_cast<uint32_t>(key >> 3)};
  switch (kind) {
    case 0:
      field.value = varint();
      break;
    case 1:
      field.value = fixed(8);
      break;
    case 2:
      field.bytes = take(varint());
      break;
    case 5:
      field.value = fixed(4);
      break;
    default:
      check(false);
  }
  return field;
}

}  // namespace axonn
