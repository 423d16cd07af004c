#include "checkpoint/rank_notes.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "axonn/core/error.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Descriptions = std::vector<CheckpointReader::Description>;

constexpr const char* kSuffix = ".json";

// The ranges of cut tensors, by tensor and first rank of the group.
class CutRanges {
 public:
  // UserError if another rank of the group described the range in another way.
  void check(const CheckpointReader::Description& tensor, const Manifest::File& file,
             const Manifest::StoredRange& stored) {
    Coordinate at = file.at;
    for (const Axis axis : tensor.cut->axes) at[axis] = 0;
    const auto& [before, name] =
        seen_.try_emplace({stored.tensor, at.x, at.y, at.z, at.data}, stored, file.name).first->second;
    AXONN_CHECK(before.range == stored.range && before.arena_offset == stored.arena_offset, "checkpoint.save",
                "the cut of ", tensor.name, " over ", tensor.cut->to_string(), " needs one place in the arena, got ",
                *before.arena_offset, " for ", name, " and ", *stored.arena_offset, " for ", file.name);
  }

 private:
  std::map<std::tuple<size_t, int, int, int, int>, std::pair<Manifest::StoredRange, std::string>> seen_;
};

}  // namespace

void write_note(const fs::path& partial, const Manifest::File& file) {
  disk::write_synced(partial / (file.name + kSuffix), file_to_json(file));
}

std::vector<Manifest::File> take_notes(const fs::path& partial, int64_t ranks, const Descriptions& tensors) {
  std::vector<fs::path> notes;
  for (const auto& entry : fs::directory_iterator(partial))
    if (entry.path().extension() == kSuffix) notes.push_back(entry.path());
  AXONN_CHECK(std::ssize(notes) == ranks, "checkpoint.save", "only ", notes.size(), " of ", ranks, " ranks wrote to ",
              partial.string(), "; the directory of a run must be on a file system that every node sees");
  std::ranges::sort(notes);
  std::vector<Manifest::File> files;
  CutRanges cut_ranges;
  for (const fs::path& note : notes) {
    auto file = file_from_json(disk::read_text(note), note);
    for (const auto& stored : file.ranges)
      if (const auto& tensor = tensors.at(stored.tensor); tensor.cut) cut_ranges.check(tensor, file, stored);
    std::erase_if(file.ranges, [&](const Manifest::StoredRange& stored) {
      const auto& cut = tensors[stored.tensor].cut;
      return cut && !cut->is_first(file.at);
    });
    if (file.bytes > 0) files.push_back(std::move(file));
    fs::remove(note);
  }
  return files;
}

}  // namespace axonn
