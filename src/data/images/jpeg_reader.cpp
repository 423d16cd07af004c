#include "data/images/jpeg_reader.hpp"

#include <algorithm>

#include <cstring>

#include <jerror.h>

#include "data/images/exif.hpp"

namespace axonn {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMostMarkerBytes = 0xFFFF;
constexpr char kExif[] = {'E', 'x', 'i', 'f', 0, 0};

}  // namespace

void JpegReader::fail(j_common_ptr jpeg) {
  auto* reader = static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader->message_);
  std::longjmp(reader->failed_, 1);
}

void JpegReader::warn(j_common_ptr jpeg, int level) {
  if (level >= 0) return;  // trace messages
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      fail(jpeg);
      break;
    case JWRN_EXTRANEOUS_DATA:
      static_cast<JpegReader*>(jpeg->client_data)->surplus_bytes_ += jpeg->err->msg_parm.i[0];
  }
}

bool JpegReader::read_head() {
  jpeg_.err = jpeg_std_error(&errors_);
  errors_.error_exit = fail;
  errors_.emit_message = warn;
  jpeg_.client_data = this;
  if (setjmp(failed_) != 0) return false;
  jpeg_create_decompress(&jpeg_);
  jpeg_stdio_src(&jpeg_, file_);
  jpeg_save_markers(&jpeg_, kExifMarker, kMostMarkerBytes);
  jpeg_read_header(&jpeg_, TRUE);
  for (const jpeg_marker_struct* marker = jpeg_.marker_list; marker != nullptr; marker = marker->next) {
    if (marker->data_length < sizeof kExif || std::memcmp(marker->data, kExif, sizeof kExif) != 0) continue;
    orientation_ = exif_orientation({marker->data + sizeof kExif, marker->data_length - sizeof kExif});
    break;
  }
  return true;
}

bool JpegReader::shrink(int64_t smallest_side) {
  if (setjmp(failed_) != 0) return false;
  jpeg_.out_color_space = JCS_RGB;
  jpeg_.scale_num = 1;
  jpeg_.scale_denom = 1;
  while (smallest_side > 0 && jpeg_.scale_denom < 8 &&
         std::min(width(), height()) >= 2 * int64_t{jpeg_.scale_denom} * smallest_side)
    jpeg_.scale_denom *= 2;
  jpeg_calc_output_dimensions(&jpeg_);
  return true;
}

bool JpegReader::read_rows(uint8_t* pixels) {
  if (setjmp(failed_) != 0) return false;
  jpeg_start_decompress(&jpeg_);
  while (jpeg_.output_scanline < jpeg_.output_height) {
    JSAMPROW row = pixels + size_t{jpeg_.output_scanline} * jpeg_.output_width * 3;
    jpeg_read_scanlines(&jpeg_, &row, 1);
  }
  jpeg_finish_decompress(&jpeg_);
  return true;
}

}  // namespace axonn
