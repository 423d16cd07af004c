#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

// manifest.json of checkpoint formats 1 to 4, as a value.
namespace axonn {

struct Manifest {
  static constexpr int kNewestFormat = 4;
  static constexpr const char* kFileName = "manifest.json";

  // A tensor's stored range [begin, end) of the flattened block of a rank. The rank's part holds
  // its elements without padding: all of them, or those that the rank owns.
  struct StoredRange {
    size_t tensor = 0;  // index in `tensors`
    Range range;
    std::optional<int64_t> arena_offset = {};  // place of range.begin; only with a cut
  };
  struct File {
    std::string name;
    int64_t bytes = 0;
  };
  // The elements that one rank wrote of tensors that the same axes replicate (replicated_axes()):
  // the same ranks read them.
  struct Part {
    size_t file = 0;  // index in `files`
    Coordinate at;
    AxisSet replicated;
    Range header, data;                    // bytes of the file; formats 1 to 3: all of them, and none
    uint64_t xxh64 = 0;                    // both ranges
    size_t places = 0;                     // index in `places`; format 4
    std::vector<StoredRange> ranges = {};  // by tensor; formats 1 to 3, whose parts hold all kinds
  };
  // A tensor in a part, and its bytes in the file.
  struct Placed {
    StoredRange stored;
    Range bytes;
  };

  CheckpointState state;
  GridShape grid;
  std::vector<CheckpointReader::Description> tensors;
  // The places in the arenas of some ranks at which the ranges of cut tensors begin: one number per
  // tensor, -1 if it is not cut.
  std::vector<std::vector<int64_t>> places;
  std::vector<File> files;
  std::vector<Part> parts;
  int format = kNewestFormat;

  bool has_rule() const { return format > 3; }  // grid and tensors tell what a part holds
  // The range of a tensor of which the part may hold elements. Nothing: it certainly holds none.
  std::optional<StoredRange> range_in(const Part& part, size_t tensor) const;
  std::vector<Placed> placed_in(const Part& part) const;  // format 4: by the rule, in the order of their bytes
  std::string name_of(const Part& part) const { return files[part.file].name; }

  std::string to_json() const;  // format 4; its last member is the checksum of all text before it
  static Manifest from_json(const std::string& text, const std::filesystem::path& path);  // UserError names `path`
};

// Reads manifest.json in `directory`, and its text.
std::string read_manifest_text(const std::filesystem::path& directory);
// Reads it, and checks that every file exists and has its size.
Manifest read_manifest(const std::filesystem::path& directory);
void check_files(const std::filesystem::path& directory, const Manifest& manifest);

// UserError if the checksum of a part is another one than the manifest says.
void check_sum(const std::filesystem::path& directory, const Manifest& manifest, const Manifest::Part& part,
               uint64_t found);

}  // namespace axonn
