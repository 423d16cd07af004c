#pragma once

#include <cstdint>
#include <string>
#include <vector>

// PNG and JPEG files. No torch, no communication; every function may be called by several threads at a time.
namespace axonn {

// Row by row from the top, one byte each of red, green and blue (sRGB).
struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // height * width * 3
};

// A whole picture, PNG or JPEG by its first bytes, whatever its name says. Grey and palettes become RGB, 16 bits become 8, what is
// transparent is laid on white. EXIF orientation is not followed. `smallest_side` > 0 allows a JPEG to come at 1/2, 1/4 or 1/8 of its size
// as long as neither side falls below that, which decodes faster. UserErrors that name the file: it cannot be read, is neither PNG nor
// JPEG, ends early (a PNG: before its last pixel), is corrupt, is a CMYK JPEG, or has more than 2^28 pixels.
Picture read_picture(const std::string& file, int64_t smallest_side = 0);

// Looks at the two ends alone: a header that read_picture would take, and the mark that ends a file of its kind (IEND, EOI) within the last
// 4096 bytes, so that a file that was cut short is found without decoding it. Throws as read_picture does.
void check_picture_file(const std::string& file);

// An 8-bit RGB PNG. It is written beside `file` as `file`.partial, synced and renamed: `file` is the old one or the whole new one.
// UserError: the directory does not exist, `file` is a directory, no pixels, other bytes than width and height need, more
// than 2^28 pixels. BackendError: the system refuses.
void write_png(const std::string& file, const Picture& picture);

}  // namespace axonn
