#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace axonn {

// The kind of content that the bytes of a file seem to be.
enum class ContentClass : uint8_t {
  text,
  empty,
  packed,   // gzip, xz, zstd, bzip2, zip and the like: to be unpacked
  pointer,  // stands for a file that was not fetched: git-lfs, git-annex
  wide,     // UTF-16 or UTF-32: to be converted
  page,     // a page of HTML
  image,
  binary,  // anything else that is no text
};

struct ContentGuess {
  ContentClass kind = ContentClass::text;
  std::string_view name = "text";  // "gzip", "UTF-16", "a pointer of git-lfs"
  std::string_view cure = "";      // "unpack it with gunzip"; empty: none is known
};

// How many bytes of the beginning guess_content() wants.
inline constexpr size_t kGuessBytes = 8192;

// From the first kGuessBytes bytes of a file, or all of a shorter one. Text is what has no NUL byte
// and not more than one control character in ten bytes, and begins as no known format does.
ContentGuess guess_content(std::string_view head);

// Whether a file of a folder is read as text: it is text, or a page of HTML whose name does not
// promise something else.
bool is_text_of_folder(const ContentGuess& guess, const std::filesystem::path& name);

}  // namespace axonn
