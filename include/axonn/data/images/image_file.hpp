#pragma once

#include <cstdint>
#include <string>
#include <vector>

// PNG and JPEG files. No torch, no communication. Several threads may call these functions
// concurrently.
namespace axonn {

// Row by row from the top, one byte each of red, green and blue (sRGB).
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // height * width * 3
  std::string doubt = "";       // why a file that was decoded may be damaged; empty if nothing is odd
};

// Reads a whole image. The first bytes decide whether it is PNG or JPEG, not the name. Grey and
// palettes become RGB, 16 bits become 8 (v / 257, rounded), and transparent pixels are blended with
// white: (v a + 255 (255 - a)) / 255, rounded, of the 8-bit values. The orientation in EXIF is
// applied, so the image is upright. With `smallest_side` > 0 a JPEG may be decoded at 1/2, 1/4 or
// 1/8 of its size, which is faster, as long as neither side falls below `smallest_side`. Throws a
// UserError that names the file if it cannot be read, is no regular file, is neither PNG nor JPEG
// (what it seems to be), ends early (a PNG: before its last pixel), is corrupt, is a CMYK JPEG, or
// has more than 2^28 pixels.
Image read_image(const std::string& file, int64_t smallest_side = 0);

// Checks only the two ends: a header that read_image() accepts, and the end marker of the format
// (IEND, EOI) within the last 4096 bytes. So a truncated file is found without decoding it. Returns
// a hash of the first and last 4096 bytes. Throws as read_image() does.
uint64_t check_image_file(const std::string& file);

// Writes an 8-bit RGB PNG as `file`.partial, syncs it and renames it, so `file` is always the old
// image or the complete new one. Throws UserError if the directory does not exist, `file` is a
// directory, the image has no pixels or more than 2^28, or `pixels` does not match width and
// height. Throws BackendError if the system cannot write the file.
void write_png(const std::string& file, const Image& image);

}  // namespace axonn
