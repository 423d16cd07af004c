#include "axonn/data/images/image_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <png.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "core/files.hpp"
#include "data/folder/content_guess.hpp"
#include "data/images/exif.hpp"
#include "data/images/jpeg_holes.hpp"
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

// Null, with errno, if `path` cannot be opened or is a pipe or the like, which might never end.
std::FILE* open_regular(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat status{};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  std::FILE* const stream = regular ? ::fdopen(descriptor, "rb") : nullptr;
  if (!regular) errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (stream == nullptr) ::close(descriptor);
  return stream;
}

// The kind of a file that is no image that can be read.
std::string other_kind(std::string_view head) {
  const ContentGuess guess = guess_content(head);
  using enum ContentClass;
  const bool curable = guess.kind == packed || guess.kind == pointer || guess.kind == page;
  return detail::concatenate(guess.name, curable ? "; " : "", curable ? guess.cure : "");
}

// An open image file, at its first byte.
struct ImageFile {
  explicit ImageFile(const std::string& path) : name(path), stream(open_regular(path), &std::fclose) {
    AXONN_CHECK(stream != nullptr, kWhere, "cannot read ", name, ": ", reason_and_cure(errno));
    const std::string head = read(kGuessBytes);
    AXONN_CHECK(!head.empty(), kWhere, name, " is empty");
    kind = head.starts_with(kPngBegin) ? Kind::png : Kind::jpeg;
    AXONN_CHECK(kind == Kind::png || head.starts_with(kJpegBegin), kWhere, name,
                " is neither a PNG nor a JPEG file, it seems to be ", other_kind(head));
    std::rewind(stream.get());
  }

  std::string read(size_t bytes) const {
    std::string text(bytes, '\0');
    text.resize(std::fread(text.data(), 1, bytes, stream.get()));
    AXONN_CHECK(std::ferror(stream.get()) == 0, kWhere, "cannot read ", name, ": ", reason_and_cure(errno));
    return text;
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

uint32_t big_endian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// libpng's simple reader shows no chunks. See the PNG specification, 5.3: length, name, data, CRC.
int png_orientation(const ImageFile& file) {
  constexpr uint32_t kMostExifBytes = 1 << 20;
  constexpr long kCrcBytes = 4;
  if (std::fseek(file.stream.get(), std::ssize(kPngBegin), SEEK_SET) != 0) return 1;
  while (true) {
    const std::string head = file.read(8);
    if (head.size() < 8 || head.ends_with("IEND")) return 1;
    const uint32_t bytes = big_endian(std::string_view(head).substr(0, 4));
    if (head.ends_with("eXIf") && bytes <= kMostExifBytes) {
      const std::string exif = file.read(bytes);
      return exif_orientation({reinterpret_cast<const uint8_t*>(exif.data()), exif.size()});
    }
    if (std::fseek(file.stream.get(), static_cast<long>(bytes) + kCrcBytes, SEEK_CUR) != 0) return 1;
  }
}

// Drops the last of four channels: `image` is red, green, blue and alpha.
void blend_with_white(Image& image) {
  const uint8_t* from = image.pixels.data();
  uint8_t* to = image.pixels.data();
  for (int64_t pixel = 0; pixel < image.width * image.height; ++pixel, from += 4)
    for (int channel = 0, alpha = from[3]; channel < 3; ++channel)
      *to++ = static_cast<uint8_t>((from[channel] * alpha + 255 * (255 - alpha) + 127) / 255);
  image.pixels.resize(static_cast<size_t>(image.width * image.height * 3));
}

Image read_png(const ImageFile& file) {
  PngImage png;
  read_head(file, png);
  const bool transparent = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // without a gamma, as for 8 bits
  Image image{.width = png.width, .height = png.height, .pixels = std::vector<uint8_t>(PNG_IMAGE_SIZE(png))};
  AXONN_CHECK(png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr) != 0, kWhere, file.name,
              " is a corrupt PNG: ", png.message);
  if (transparent) blend_with_white(image);
  return upright(std::move(image), png_orientation(file));
}

// Damage that libjpeg steps over.
std::string doubt_of(const ImageFile& file, const JpegReader& jpeg) {
  constexpr int64_t kSmallestBlock = 512, kPadding = 16;
  if (jpeg.surplus_bytes() > kPadding)
    return detail::concatenate("it has ", jpeg.surplus_bytes(), " bytes more than its pixels need");
  std::rewind(file.stream.get());
  std::string bytes;
  for (std::string part; !(part = file.read(1 << 20)).empty();) bytes += part;
  const int64_t zeros = longest_zero_run(bytes);
  return zeros < kSmallestBlock ? "" : detail::concatenate("it has ", zeros, " zero bytes in a row among its pixels");
}

Image read_jpeg(const ImageFile& file, int64_t smallest_side) {
  JpegReader jpeg(file.stream.get());
  read_head(file, jpeg);
  const auto check = [&](bool fine) { AXONN_CHECK(fine, kWhere, file.name, " is a corrupt JPEG: ", jpeg.message()); };
  check(jpeg.shrink(smallest_side));
  Image image{.width = jpeg.output_width(), .height = jpeg.output_height(), .pixels = {}};
  image.pixels.resize(static_cast<size_t>(image.width * image.height * 3));
  check(jpeg.read_rows(image.pixels.data()));
  image.doubt = doubt_of(file, jpeg);
  return upright(std::move(image), jpeg.orientation());
}

// The last kTailBytes of the file, or all of a shorter one.
std::string tail_of(const ImageFile& file) {
  std::FILE* stream = file.stream.get();
  if (std::fseek(stream, -kTailBytes, SEEK_END) != 0) std::rewind(stream);
  return file.read(kTailBytes);
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

uint64_t check_image_file(const std::string& file) {
  const ImageFile opened(file);
  if (opened.kind == Kind::png) {
    PngImage png;
    read_head(opened, png);
  } else {
    JpegReader jpeg(opened.stream.get());
    read_head(opened, jpeg);
  }
  const std::string tail = tail_of(opened);
  AXONN_CHECK(tail.find(opened.kind == Kind::png ? kPngEnd : kJpegEnd) != std::string::npos, kWhere, file,
              " is cut short: the mark that ends a ", opened.kind == Kind::png ? "PNG" : "JPEG", " file is missing");
  std::rewind(opened.stream.get());
  return disk::xxh64_of(opened.read(kTailBytes) + tail);
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
    throw BackendError(
        kWhere, detail::concatenate("cannot rename ", partial.string(), " to ", file, ": ", reason_and_cure(error)));
}

}  // namespace axonn
