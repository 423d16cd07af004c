#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

// Opens files of a checkpoint. The last one stays open, as the parts of a rank lie in one file.
class PartFiles {
 public:
  // Both outlive it.
  PartFiles(const std::filesystem::path& directory, const Manifest& manifest)
      : directory_(directory), manifest_(manifest) {}

  const std::filesystem::path& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // UserError if it cannot be opened.
  std::shared_ptr<const disk::OpenFile> open(const Manifest::Part& part);

 private:
  const std::filesystem::path& directory_;
  const Manifest& manifest_;
  size_t last_ = 0;  // index in the manifest's files
  std::shared_ptr<const disk::OpenFile> file_;
};

// Reads all bytes of a part, in order, and hashes them.
class PartBytes {
 public:
  // Files and part outlive it. UserError if the file cannot be opened.
  PartBytes(PartFiles& files, const Manifest::Part& part) : files_(files), part_(part), file_(files.open(part)) {}

  // The next ones, valid until the next call; nothing behind the last ones. UserError if they
  // cannot be read.
  std::optional<FilePiece> next();
  // Reads what is left. UserError if the checksum is another one than the manifest says.
  void check();

 private:
  const PartFiles& files_;
  const Manifest::Part& part_;
  std::shared_ptr<const disk::OpenFile> file_;
  disk::Hash64 hash_;
  int64_t done_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace axonn
