#include "data/folder/content_guess.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>

namespace axonn {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  ContentGuess guess;
  size_t at = 0;
};

constexpr std::array kMagics = {
    Magic{"\x1f\x8b"sv, {ContentClass::packed, "gzip", "unpack it with gunzip"}},
    Magic{"\xfd"
          "7zXZ\0"sv,
          {ContentClass::packed, "xz", "unpack it with unxz"}},
    Magic{"\x28\xb5\x2f\xfd"sv, {ContentClass::packed, "zstd", "unpack it with unzstd"}},
    Magic{"BZh"sv, {ContentClass::packed, "bzip2", "unpack it with bunzip2"}},
    Magic{"PK\x03\x04"sv, {ContentClass::packed, "zip", "unpack it with unzip"}},
    Magic{"PK\x05\x06"sv, {ContentClass::packed, "zip", "unpack it with unzip"}},
    Magic{"7z\xbc\xaf\x27\x1c"sv, {ContentClass::packed, "7z", "unpack it with 7z x"}},
    Magic{"Rar!\x1a\x07"sv, {ContentClass::packed, "rar", "unpack it with unrar"}},
    Magic{"\x04\x22\x4d\x18"sv, {ContentClass::packed, "lz4", "unpack it with unlz4"}},
    Magic{"\x1f\x9d"sv, {ContentClass::packed, "compress", "unpack it with uncompress"}},
    Magic{"LZIP"sv, {ContentClass::packed, "lzip", "unpack it with lzip -d"}},
    Magic{"ustar"sv, {ContentClass::packed, "tar", "unpack it with tar -xf"}, 257},
    Magic{"version https://git-lfs.github.com/spec/"sv,
          {ContentClass::pointer, "git-lfs pointer", "git lfs pull fetches the file that it stands for"}},
    Magic{"version https://hawser.github.com/spec/"sv,
          {ContentClass::pointer, "git-lfs pointer", "git lfs pull fetches the file that it stands for"}},
    Magic{"/annex/objects/"sv,
          {ContentClass::pointer, "git-annex pointer", "git annex get fetches the file that it stands for"}},
    Magic{"\xff\xfe\0\0"sv, {ContentClass::wide, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8"}},
    Magic{"\0\0\xfe\xff"sv, {ContentClass::wide, "UTF-32", "convert it with iconv -f UTF-32 -t UTF-8"}},
    Magic{"\xff\xfe"sv, {ContentClass::wide, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"}},
    Magic{"\xfe\xff"sv, {ContentClass::wide, "UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"}},
    Magic{"\x89PNG\r\n\x1a\n"sv, {ContentClass::image, "PNG image"}},
    Magic{"\xff\xd8\xff"sv, {ContentClass::image, "JPEG image"}},
    Magic{"GIF87a"sv, {ContentClass::image, "GIF image"}},
    Magic{"GIF89a"sv, {ContentClass::image, "GIF image"}},
    Magic{"WEBP"sv, {ContentClass::image, "WebP image"}, 8},
    Magic{"ftypavif"sv, {ContentClass::image, "AVIF image"}, 4},
    Magic{"ftyphei"sv, {ContentClass::image, "HEIF image"}, 4},
    Magic{"II*\0"sv, {ContentClass::image, "TIFF image"}},
    Magic{"MM\0*"sv, {ContentClass::image, "TIFF image"}},
    Magic{"\xff\x0a"sv, {ContentClass::image, "JPEG XL image"}},
    Magic{"%PDF-"sv, {ContentClass::binary, "PDF", "convert it with pdftotext"}},
    Magic{"PAR1"sv, {ContentClass::binary, "Parquet", "write its column of text to a file"}},
    Magic{"ARROW1\0\0"sv, {ContentClass::binary, "Arrow", "write its column of text to a file"}},
    Magic{"\x93NUMPY"sv, {ContentClass::binary, "array of numpy", "name the text that its numbers were made of"}},
    Magic{"SQLite format 3\0"sv, {ContentClass::binary, "SQLite"}},
    Magic{"\x89HDF\r\n\x1a\n"sv, {ContentClass::binary, "HDF5"}},
    Magic{"\x7f"
          "ELF"sv,
          {ContentClass::binary, "program"}},
};

// A byte that no text has: a control character other than those of lines, pages and terminals.
bool is_odd(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return (byte < 0x20 && (byte < 0x07 || byte > 0x0d) && byte != 0x1b) || byte == 0x7f;
}

// Text whose letters have `width` bytes each. Almost all of them are letters of ASCII, whose other
// bytes are NUL. The one that is not, at `place` in each group, is no control character.
bool is_wide(std::string_view head, size_t width, size_t place) {
  const size_t letters = head.size() / width;
  size_t ascii = 0;
  for (size_t letter = 0; letter < letters; ++letter) {
    const std::string_view group = head.substr(letter * width, width);
    if (std::ranges::count(group, '\0') == std::ssize(group) - 1 && group[place] != '\0' && !is_odd(group[place]))
      ++ascii;
  }
  return letters >= 2 && ascii * 10 >= letters * 9;
}

std::optional<ContentGuess> guess_wide(std::string_view head) {
  for (const size_t place : {size_t{0}, size_t{3}})
    if (is_wide(head, 4, place))
      return ContentGuess{
          ContentClass::wide, "UTF-32",
          place == 0 ? "convert it with iconv -f UTF-32LE -t UTF-8" : "convert it with iconv -f UTF-32BE -t UTF-8"};
  for (const size_t place : {size_t{0}, size_t{1}})
    if (is_wide(head, 2, place))
      return ContentGuess{
          ContentClass::wide, "UTF-16",
          place == 0 ? "convert it with iconv -f UTF-16LE -t UTF-8" : "convert it with iconv -f UTF-16BE -t UTF-8"};
  return std::nullopt;
}

bool is_page(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  head = head.substr(std::min(head.find_first_not_of(" \t\r\n"), head.size())).substr(0, 1024);
  std::string begin(head);
  std::ranges::transform(begin, begin.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (begin.starts_with("<!doctype html") || begin.starts_with("<html")) return true;
  return (begin.starts_with("<?xml") || begin.starts_with("<!--")) && begin.find("<html") != std::string::npos;
}

}  // namespace

ContentGuess guess_content(std::string_view head) {
  if (head.empty()) return {ContentClass::empty, "empty"};
  for (const Magic& magic : kMagics)
    if (head.size() > magic.at && head.substr(magic.at).starts_with(magic.bytes)) return magic.guess;
  if (is_page(head)) return {ContentClass::page, "HTML page", "fetch the file again: this may be a page of an error"};
  const bool nul = head.find('\0') != std::string_view::npos;
  if (nul)
    if (const auto wide = guess_wide(head)) return *wide;
  if (nul || std::ranges::count_if(head, is_odd) * 10 > std::ssize(head))
    return {ContentClass::binary, "binary", "it may be numbers of tokens: nanoGPT's are named nanogpt:FILE"};
  return {};
}

bool is_text_of_folder(const ContentGuess& guess, const std::filesystem::path& name) {
  constexpr std::array kPlain = {".txt", ".text", ".md", ".rst", ".tex", ".csv", ".tsv", ".json", ".jsonl"};
  const bool promises_other = std::ranges::count(kPlain, name.extension().string()) > 0;
  return guess.kind == ContentClass::text || (guess.kind == ContentClass::page && !promises_other);
}

}  // namespace axonn
