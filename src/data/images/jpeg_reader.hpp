#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>

namespace axonn {

// libjpeg reports errors by a call that must not return. Here this call jumps back into the method
// that was called, over frames of C only. So these methods hold no object with a destructor. They
// return `false` on an error, and message() has the reason. Missing or wrong data is an error here;
// libjpeg would only warn and fill in grey.
class JpegReader {
 public:
  explicit JpegReader(std::FILE* file) : file_(file) {}  // at the file's first byte
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool read_head();
  bool is_cmyk() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }
  int64_t width() const { return jpeg_.image_width; }
  int64_t height() const { return jpeg_.image_height; }
  int orientation() const { return orientation_; }  // EXIF's

  // Bytes that no pixel needed. Some cameras write a few; many are a sign of damage.
  int64_t surplus_bytes() const { return surplus_bytes_; }

  // Call after read_head. Decodes the image at 1/2, 1/4 or 1/8 of its size if no side falls below
  // `smallest_side`.
  bool shrink(int64_t smallest_side);
  int64_t output_width() const { return jpeg_.output_width; }
  int64_t output_height() const { return jpeg_.output_height; }

  // Call after shrink. Reads output_height * output_width * 3 bytes.
  bool read_rows(uint8_t* pixels);

  const char* message() const { return message_; }

 private:
  static void fail(j_common_ptr jpeg);
  static void warn(j_common_ptr jpeg, int level);

  std::FILE* file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf failed_{};
  int orientation_ = 1;
  int64_t surplus_bytes_ = 0;
  char message_[JMSG_LENGTH_MAX] = {};
};

}  // namespace axonn
