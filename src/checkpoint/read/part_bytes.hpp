#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/manifest/manifest.hpp"
#include "core/files.hpp"

namespace axonn {

// Some bytes of a file.
struct FilePiece {
  int64_t place = 0;
  std::span<const std::byte> bytes;
};

// Reads all bytes of a part, in order, and hashes them.
class PartBytes {
 public:
  // The directory and the manifest outlive it. UserError if the file cannot be opened.
  PartBytes(const std::filesystem::path& directory, const Manifest& manifest, const Manifest::Part& part);

  // The next ones, valid until the next call; nothing behind the last ones. UserError if they
  // cannot be read.
  std::optional<FilePiece> next();
  // Reads what is left. UserError if the checksum is another one than the manifest says.
  void check();

 private:
  const std::filesystem::path& directory_;
  const Manifest& manifest_;
  const Manifest::Part& part_;
  disk::OpenFile file_;
  disk::Hash64 hash_;
  int64_t done_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace axonn
