#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

// manifest.json of checkpoint formats 1 to 3, as a value.
namespace axonn {

struct Manifest {
  static constexpr int kNewestFormat = 3;
  static constexpr const char* kFileName = "manifest.json";

  // A tensor's stored range [begin, end) of the flattened block of the file's coordinate. The file
  // holds its elements without padding: all of them, or those that the file's rank owns.
  struct StoredRange {
    size_t tensor = 0;  // index in `tensors`
    Range range;
    std::optional<int64_t> arena_offset = {};  // place of range.begin; only with a cut
  };
  struct File {
    std::string name;
    Coordinate at;
    int64_t bytes = 0;
    std::string xxh64;
    // The range of a cut tensor is listed once, in the file of the group's first rank. The files of
    // the others hold elements of it too: see ranges_in().
    std::vector<StoredRange> ranges;
  };

  CheckpointState state;
  GridShape grid;
  std::vector<CheckpointReader::Description> tensors;
  std::vector<File> files;

  int format() const;  // the oldest one that holds all tensors
  std::vector<StoredRange> ranges_in(const File& file) const;

  std::string to_json() const;  // its last member is the checksum of all text before it
  static Manifest from_json(const std::string& text, const std::filesystem::path& path);  // UserError names `path`
};

// The oldest format that holds such a tensor: 3 with tiles of several indices, 2 if it is cut, else
// 1. A reader of an older format would take padding for elements.
int format_for(const ShardSpec& spec, const std::optional<CheckpointCut>& cut);

// Describes the file that a rank wrote, for the rank that writes the manifest.
std::string file_to_json(const Manifest::File& file);
Manifest::File file_from_json(const std::string& text, const std::filesystem::path& path);

// Reads manifest.json in `directory` and checks that every file in it exists and has its size.
Manifest read_manifest(const std::filesystem::path& directory);

// UserError if a file's checksum differs from the manifest's: as it is on the disk, or as it was
// read.
void check_file(const std::filesystem::path& directory, const Manifest::File& file);
void check_sum(const std::filesystem::path& directory, const Manifest::File& file, uint64_t xxh64);

}  // namespace axonn
