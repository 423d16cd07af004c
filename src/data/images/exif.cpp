#include "data/images/exif.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace axonn {
namespace {

// Numbers of a TIFF block. Beyond its end, all bytes are 0.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes) : bytes_(bytes) {
    const std::string_view mark(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 2));
    little_ = mark == "II";
    known_ = (little_ || mark == "MM") && number(2, 2) == 42;
  }
  bool known() const { return known_; }

  uint64_t number(uint64_t at, uint64_t length) const {
    uint64_t value = 0;
    for (uint64_t i = 0; i < length; ++i) {
      const uint64_t place = at + (little_ ? length - 1 - i : i);
      value = value << 8 | (place < bytes_.size() ? bytes_[place] : 0);
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_ = false;
  bool known_ = false;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> bytes) {
  constexpr uint64_t kOrientation = 0x0112, kEntryBytes = 12, kShort = 3, kLong = 4;
  const Tiff tiff(bytes);
  if (!tiff.known()) return 1;
  const uint64_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
  for (uint64_t entry = 0; entry < entries; ++entry) {
    const uint64_t at = directory + 2 + entry * kEntryBytes;
    if (tiff.number(at, 2) != kOrientation) continue;
    const uint64_t type = tiff.number(at + 2, 2), count = tiff.number(at + 4, 4), length = type == kShort ? 2 : 4;
    const bool here = count >= 1 && count * length <= 4;  // the first of two counts, as in Pillow
    if (!here || (type != kShort && type != kLong)) return 1;
    const uint64_t value = tiff.number(at + 8, length);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// EXIF says where the first row and the first column of the file are to be seen: 2 top right, 3
// bottom right, 4 bottom left, 5 left top, 6 right top, 7 right bottom, 8 left bottom.
Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image seen{.width = turned ? image.height : image.width,
             .height = turned ? image.width : image.height,
             .pixels = std::vector<uint8_t>(image.pixels.size()),
             .doubt = std::move(image.doubt)};
  uint8_t* to = seen.pixels.data();
  for (int64_t row = 0; row < seen.height; ++row)
    for (int64_t column = 0; column < seen.width; ++column) {
      const int64_t across = turned ? row : column, down = turned ? column : row;
      const int64_t x = from_right ? image.width - 1 - across : across,
                    y = from_bottom ? image.height - 1 - down : down;
      to = std::copy_n(image.pixels.data() + (y * image.width + x) * 3, 3, to);
    }
  return seen;
}

}  // namespace axonn
