#include "checkpoint/manifest/manifest.hpp"

#include <algorithm>
#include <utility>

#include "axonn/checkpoint/broken_checkpoint.hpp"
#include "axonn/core/error.hpp"
#include "checkpoint/shards/held_range.hpp"
#include "checkpoint/shards/saved_range.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "checkpoint.manifest";

}  // namespace

std::optional<Manifest::StoredRange> Manifest::range_in(const Part& part, size_t tensor) const {
  if (!has_rule()) {
    const auto found = std::ranges::lower_bound(part.ranges, tensor, {}, &StoredRange::tensor);
    return found != part.ranges.end() && found->tensor == tensor ? std::optional(*found) : std::nullopt;
  }
  const auto& [name, dtype, spec, cut] = tensors[tensor];
  if (replicated_axes(spec, cut) != part.replicated) return std::nullopt;
  StoredRange stored{.tensor = tensor, .range = spec.block_range(grid, part.at, kRangeAlignment)};
  if (cut) stored.arena_offset = places[part.places][tensor];
  return stored;
}

std::vector<Manifest::Placed> Manifest::placed_in(const Part& part) const {
  std::vector<Placed> placed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto stored = range_in(part, i);
    if (!stored) continue;
    const auto saved = saved_by(tensors[i].spec, tensors[i].cut, stored->arena_offset.value_or(0), grid, part.at);
    if (!saved || saved->in_shard.empty()) continue;
    const auto element = static_cast<int64_t>(c10::elementSize(tensors[i].dtype));
    placed.push_back({*stored, {0, elements_of(saved->in_shard) * element}});
  }
  std::ranges::stable_sort(placed, std::greater(),
                           [&](const Placed& one) { return c10::elementSize(tensors[one.stored.tensor].dtype); });
  int64_t place = part.data.begin;
  for (Placed& one : placed) {
    one.bytes = {place, place + one.bytes.end};
    place = one.bytes.end;
  }
  return placed;
}

std::string read_manifest_text(const fs::path& directory) {
  const fs::path path = directory / Manifest::kFileName;
  AXONN_CHECK(fs::is_regular_file(path), kWhere, "there is no checkpoint in ", directory.string(), ": ",
              Manifest::kFileName, " is missing");
  return disk::read_text(path);
}

Manifest read_manifest(const fs::path& directory) {
  Manifest manifest = Manifest::from_json(read_manifest_text(directory), directory / Manifest::kFileName);
  check_files(directory, manifest);
  return manifest;
}

void check_files(const fs::path& directory, const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    std::error_code error;
    const auto size = fs::file_size(directory / file.name, error);
    const std::string name = (directory / file.name).string();
    if (error) throw BrokenCheckpoint(kWhere, detail::concatenate(name, " is missing: ", error.message()));
    if (!std::cmp_equal(size, file.bytes))
      throw BrokenCheckpoint(
          kWhere, detail::concatenate(name, " is broken: it has ", size, " bytes, the manifest says ", file.bytes));
  }
}

void check_sum(const fs::path& directory, const Manifest& manifest, const Manifest::Part& part, uint64_t found) {
  if (found == part.xxh64) return;
  const std::string whose = manifest.has_rule() ? ", of what " + part.at.to_string() + " wrote" : "";
  throw BrokenCheckpoint(
      kWhere, detail::concatenate((directory / manifest.name_of(part)).string(), " is broken: its checksum is ",
                                  disk::hex(found), ", the manifest says ", disk::hex(part.xxh64), whose));
}

}  // namespace axonn
