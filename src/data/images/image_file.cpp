#include "axonn/data/images/image_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include <png.h>

#include "axonn/core/error.hpp"
#include "core/files.hpp"
#include "data/images/jpeg_reader.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.image_file";
constexpr int64_t kMostPixels = int64_t{1} << 28;
constexpr long kTailBytes = 4096;
constexpr std::string_view kPngBegin = "\x89PNG\r\n\x1a\n", kPngEnd = "IEND\xae\x42\x60\x82";
constexpr std::string_view kJpegBegin = "\xff\xd8\xff", kJpegEnd = "\xff\xd9";

enum class Kind { png, jpeg };

// An open image file, at its first byte.
struct ImageFile {
  explicit ImageFile(const std::string& path) : name(path), stream(std::fopen(path.c_str(), "rbe"), &std::fclose) {
    AXONN_CHECK(stream != nullptr, kWhere, "cannot read ", name, ": ", std::strerror(errno));
    std::array<char, kPngBegin.size()> bytes{};
    const std::string_view begin(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), stream.get()));
    AXONN_CHECK(std::ferror(stream.get()) == 0, kWhere, "cannot read ", name, ": ", std::strerror(errno));
    AXONN_CHECK(!begin.empty(), kWhere, name, " is empty");
    kind = begin.starts_with(kPngBegin) ? Kind::png : Kind::jpeg;
    AXONN_CHECK(kind == Kind::png || begin.starts_with(kJpegBegin), kWhere, name, " is neither a PNG nor a JPEG file");
    std::rewind(stream.get());
  }

  const std::string& name;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream;
  Kind kind = Kind::png;
};

void check_size(const std::string& name, int64_t width, int64_t height) {
  AXONN_CHECK(width <= kMostPixels / height, kWhere, name, " has ", width, " x ", height, " pixels, more than the ",
              kMostPixels, " that are possible");
}

struct PngImage : png_image {
  PngImage() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

void read_head(const ImageFile& file, PngImage& png) {
  AXONN_CHECK(png_image_begin_read_from_stdio(&png, file.stream.get()) != 0, kWhere, file.name,
              " is a corrupt PNG: ", png.message);
  check_size(file.name, png.width, png.height);
}

void read_head(const ImageFile& file, JpegReader& jpeg) {
  AXONN_CHECK(jpeg.read_head(), kWhere, file.name, " is a corrupt JPEG: ", jpeg.message());
  AXONN_CHECK(!jpeg.is_cmyk(), kWhere, file.name, " is a JPEG in CMYK, for print; convert it to RGB");
  check_size(file.name, jpeg.width(), jpeg.height());
}

Image read_png(const ImageFile& file) {
  PngImage png;
  read_head(file, png);
  png.format = PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // without a gamma, as for 8 bits
  Image image{.width = png.width, .height = png.height, .pixels = std::vector<uint8_t>(PNG_IMAGE_SIZE(png))};
  const png_color white = {.red = 255, .green = 255, .blue = 255};
  AXONN_CHECK(png_image_finish_read(&png, &white, image.pixels.data(), 0, nullptr) != 0, kWhere, file.name,
              " is a corrupt PNG: ", png.message);
  return image;
}

Image read_jpeg(const ImageFile& file, int64_t smallest_side) {
  JpegReader jpeg(file.stream.get());
  read_head(file, jpeg);
  const auto check = [&](bool fine) { AXONN_CHECK(fine, kWhere, file.name, " is a corrupt JPEG: ", jpeg.message()); };
  check(jpeg.shrink(smallest_side));
  Image image{.width = jpeg.output_width(), .height = jpeg.output_height(), .pixels = {}};
  image.pixels.resize(static_cast<size_t>(image.width * image.height * 3));
  check(jpeg.read_rows(image.pixels.data()));
  return image;
}

// The last kTailBytes of the file, or all of a shorter one.
std::string tail_of(const ImageFile& file) {
  std::FILE* stream = file.stream.get();
  std::string tail(kTailBytes, '\0');
  if (std::fseek(stream, -kTailBytes, SEEK_END) != 0) std::rewind(stream);
  tail.resize(std::fread(tail.data(), 1, tail.size(), stream));
  AXONN_CHECK(std::ferror(stream) == 0, kWhere, "cannot read ", file.name, ": ", std::strerror(errno));
  return tail;
}

std::string encoded(const std::string& name, const Image& image) {
  AXONN_CHECK(image.width > 0 && image.height > 0 && std::ssize(image.pixels) == image.width * image.height * 3, kWhere,
              "cannot write ", name, ": ", image.pixels.size(), " bytes are no image of ", image.width, " x ",
              image.height);
  check_size(name, image.width, image.height);
  PngImage png;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string file(bytes, '\0');
  const int done = png_image_write_to_memory(&png, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr);
  AXONN_CHECK(done != 0, kWhere, "cannot make ", name, " of ", image.width, " x ", image.height,
              " pixels: ", png.message);
  file.resize(bytes);
  return file;
}

}  // namespace

Image read_image(const std::string& file, int64_t smallest_side) {
  const ImageFile opened(file);
  return opened.kind == Kind::png ? read_png(opened) : read_jpeg(opened, smallest_side);
}

void check_image_file(const std::string& file) {
  const ImageFile opened(file);
  if (opened.kind == Kind::png) {
    PngImage png;
    read_head(opened, png);
  } else {
    JpegReader jpeg(opened.stream.get());
    read_head(opened, jpeg);
  }
  AXONN_CHECK(tail_of(opened).find(opened.kind == Kind::png ? kPngEnd : kJpegEnd) != std::string::npos, kWhere, file,
              " is cut short: the mark that ends a ", opened.kind == Kind::png ? "PNG" : "JPEG", " file is missing");
}

void write_png(const std::string& file, const Image& image) {
  const fs::path path = file, partial = file + ".partial";
  const fs::path directory = path.has_parent_path() ? path.parent_path() : ".";
  AXONN_CHECK(fs::is_directory(directory), kWhere, "cannot write ", file, ": the directory ", directory.string(),
              " does not exist");
  AXONN_CHECK(!fs::is_directory(path), kWhere, "cannot write ", file, ": it is a directory");
  disk::write_synced(partial, encoded(file, image));
  std::error_code error;
  fs::rename(partial, path, error);
  if (error)
    throw BackendError(kWhere,
                       detail::concatenate("cannot rename ", partial.string(), " to ", file, ": ", error.message()));
}

}  // namespace axonn
