#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include "axonn/data/images/image_file.hpp"

// Image files as bytes, written by libpng and libjpeg.
namespace axonn::test {

inline Image plain(int64_t width, int64_t height, uint8_t red, uint8_t green, uint8_t blue) {
  Image image{.width = width, .height = height, .pixels = {}};
  for (int64_t i = 0; i < width * height; ++i)
    for (const uint8_t value : {red, green, blue}) image.pixels.push_back(value);
  return image;
}

// Red grows to the right, green to the bottom, blue along the diagonal.
inline Image slope(int64_t width, int64_t height) {
  Image image{.width = width, .height = height, .pixels = {}};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (const int64_t value : {255 * x / width, 255 * y / height, 255 * (x + y) / (width + height)})
        image.pixels.push_back(static_cast<uint8_t>(value));
  return image;
}

struct PngKind {
  int bits = 8;
  int colour = PNG_COLOR_TYPE_RGB;
  std::vector<png_color> palette = {};
};

// `samples` as the file holds them: big-endian, row after row.
inline std::string png_bytes(int64_t width, int64_t height, std::vector<uint8_t> samples, const PngKind& kind = {}) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto append = [](png_structp each, png_bytep data, size_t length) {
    static_cast<std::string*>(png_get_io_ptr(each))->append(reinterpret_cast<char*>(data), length);
  };
  png_set_write_fn(png, &bytes, append, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.bits, kind.colour,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  png_write_info(png, info);
  const size_t row = samples.size() / static_cast<size_t>(height);
  for (size_t at = 0; at < samples.size(); at += row) png_write_row(png, samples.data() + at);
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

inline std::string png_bytes(const Image& image) { return png_bytes(image.width, image.height, image.pixels); }

// `components`: 3 for RGB, 1 for grey, 4 for CMYK.
inline std::string jpeg_bytes(int64_t width, int64_t height, std::vector<uint8_t> samples, int components) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* data = nullptr;
  unsigned long length = 0;
  jpeg_mem_dest(&jpeg, &data, &length);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = samples.data() + size_t{jpeg.next_scanline} * jpeg.image_width * static_cast<size_t>(components);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string bytes(reinterpret_cast<char*>(data), length);
  std::free(data);
  return bytes;
}

inline std::string jpeg_bytes(const Image& image) { return jpeg_bytes(image.width, image.height, image.pixels, 3); }

}  // namespace axonn::test
