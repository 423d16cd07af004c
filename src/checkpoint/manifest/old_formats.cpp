#include "checkpoint/manifest/old_formats.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "checkpoint/manifest/manifest_checks.hpp"
#include "checkpoint/shards/held_range.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kWhere = "checkpoint.manifest";

Manifest::StoredRange range_of(const Json& piece, const std::string& file) {
  const auto numbers = piece.get<std::vector<int64_t>>();
  AXONN_CHECK(numbers.size() == 3 || numbers.size() == 4, kWhere, "a piece of ", numbers.size(), " numbers");
  AXONN_CHECK(numbers[0] >= 0, kWhere, file, " holds tensor number ", numbers[0]);
  Manifest::StoredRange stored{static_cast<size_t>(numbers[0]), {numbers[1], numbers[2]}, std::nullopt};
  if (numbers.size() == 4) stored.arena_offset = numbers[3];
  return stored;
}

void check_range(const Manifest& manifest, const std::string& file, const Coordinate& at,
                 const Manifest::StoredRange& stored) {
  AXONN_CHECK(stored.tensor < manifest.tensors.size(), kWhere, file, " holds tensor number ", stored.tensor);
  const auto& tensor = manifest.tensors[stored.tensor];
  const int64_t block = tensor.spec.block_numel(manifest.grid, at);
  AXONN_CHECK(0 <= stored.range.begin && stored.range.begin <= stored.range.end && stored.range.end <= block, kWhere,
              file, " holds a range outside of the block of ", tensor.name);
  AXONN_CHECK(stored.arena_offset.has_value() == tensor.cut.has_value(), kWhere, file, " holds ", tensor.name,
              tensor.cut ? " without its place in the arena" : ", not cut, with a place in the arena");
  if (!tensor.cut) return;
  check_place(*stored.arena_offset, tensor.name, kWhere);
  AXONN_CHECK(tensor.cut->is_first(at), kWhere, file, " lists ", tensor.name,
              ", which the first rank of its cut lists");
}

// The range of a cut tensor is listed by the first rank of its group. The others have it too.
std::vector<Manifest::StoredRange> ranges_of_group(const Manifest& manifest,
                                                   const std::vector<std::vector<Manifest::StoredRange>>& listed,
                                                   const Coordinate& at) {
  std::vector<Manifest::StoredRange> found;
  std::vector<AxisSet> done;
  for (const auto& tensor : manifest.tensors) {
    if (!tensor.cut || tensor.cut->is_first(at)) continue;
    const AxisSet axes = tensor.cut->axis_set();
    if (std::ranges::find(done, axes) != done.end()) continue;
    done.push_back(axes);
    Coordinate first = at;
    for (const Axis axis : tensor.cut->axes) first[axis] = 0;
    const auto listing = std::ranges::find(manifest.parts, first, &Manifest::Part::at);
    if (listing == manifest.parts.end()) continue;
    std::ranges::copy_if(listed[static_cast<size_t>(listing - manifest.parts.begin())], std::back_inserter(found),
                         [&](const Manifest::StoredRange& stored) {
                           const auto& cut = manifest.tensors[stored.tensor].cut;
                           return cut && cut->axis_set() == axes;
                         });
  }
  return found;
}

}  // namespace

void read_old_files(const Json& json, Manifest& manifest) {
  std::vector<std::vector<Manifest::StoredRange>> listed;
  for (const Json& item : json.at("files")) {
    const std::string name = plain_file_name(item.at("name").get<std::string>());
    const auto at = item.at("at").get<std::array<int, 4>>();
    const auto bytes = item.at("bytes").get<int64_t>();
    Manifest::Part part{.file = manifest.files.size(),
                        .at = {at[0], at[1], at[2], at[3]},
                        .replicated = {},
                        .header = {0, bytes},
                        .data = {bytes, bytes},
                        .xxh64 = hash_of_hex(item.at("xxh64").get<std::string>())};
    manifest.files.push_back({name, bytes});
    check_on_grid(manifest, part);
    for (const Json& piece : item.at("pieces")) {
      part.ranges.push_back(range_of(piece, name));
      check_range(manifest, name, part.at, part.ranges.back());
    }
    listed.push_back(part.ranges);
    manifest.parts.push_back(std::move(part));
  }
  for (Manifest::Part& part : manifest.parts) {
    const auto of_group = ranges_of_group(manifest, listed, part.at);
    part.ranges.insert(part.ranges.end(), of_group.begin(), of_group.end());
    std::ranges::stable_sort(part.ranges, {}, &Manifest::StoredRange::tensor);
  }
}

}  // namespace axonn
