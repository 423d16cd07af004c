#include "checkpoint/manifest.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/broken_checkpoint.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/json_depth.hpp"
#include "axonn/core/version.hpp"
#include "checkpoint/held_range.hpp"
#include "checkpoint/tensor_json.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
constexpr const char* kWhere = "checkpoint.manifest";

constexpr std::string_view kChecksumKey = ",\n\"manifest_xxh64\": \"";

Json file_json(const Manifest::File& file) {
  Json pieces = Json::array();
  for (const auto& stored : file.ranges) {
    pieces.push_back({stored.tensor, stored.range.begin, stored.range.end});
    if (stored.arena_offset) pieces.back().push_back(*stored.arena_offset);
  }
  return {{"name", file.name},
          {"at", {file.at.x, file.at.y, file.at.z, file.at.data}},
          {"bytes", file.bytes},
          {"xxh64", file.xxh64},
          {"pieces", pieces}};
}

Manifest::File file_of(const Json& item) {
  Manifest::File file;
  file.name = item.at("name").get<std::string>();
  AXONN_CHECK(fs::path(file.name).filename() == file.name, kWhere, "'", file.name, "' is not a plain file name");
  const auto at = item.at("at").get<std::array<int, 4>>();
  file.at = {at[0], at[1], at[2], at[3]};
  file.bytes = item.at("bytes").get<int64_t>();
  file.xxh64 = item.at("xxh64").get<std::string>();
  for (const Json& stored : item.at("pieces")) {
    const auto numbers = stored.get<std::vector<int64_t>>();
    AXONN_CHECK(numbers.size() == 3 || numbers.size() == 4, kWhere, "a piece of ", numbers.size(), " numbers");
    file.ranges.push_back({static_cast<size_t>(numbers[0]), {numbers[1], numbers[2]}, std::nullopt});
    if (numbers.size() == 4) file.ranges.back().arena_offset = numbers[3];
  }
  return file;
}

void check_arena_offset(const Manifest::File& file, const Manifest::StoredRange& stored,
                        const CheckpointReader::Description& tensor) {
  AXONN_CHECK(stored.arena_offset.has_value() == tensor.cut.has_value(), kWhere, file.name, " holds ", tensor.name,
              tensor.cut ? " without its place in the arena" : ", not cut, with a place in the arena");
  if (!tensor.cut) return;
  check_place(*stored.arena_offset, tensor.name, kWhere);
  AXONN_CHECK(tensor.cut->is_first(file.at), kWhere, file.name, " lists ", tensor.name,
              ", which the first rank of its cut lists");
}

void check_consistent(const Manifest& manifest) {
  for (const auto& tensor : manifest.tensors)
    if (tensor.cut) tensor.cut->owners(manifest.grid);
  for (const auto& file : manifest.files) {
    for (const Axis axis : kAxes)
      AXONN_CHECK(file.at[axis] >= 0 && file.at[axis] < manifest.grid[axis], kWhere, file.name, " is of ",
                  file.at.to_string(), ", which is not on grid ", manifest.grid.to_string());
    for (const auto& stored : file.ranges) {
      AXONN_CHECK(stored.tensor < manifest.tensors.size(), kWhere, file.name, " holds tensor number ", stored.tensor);
      const int64_t block = manifest.tensors[stored.tensor].spec.block_numel(manifest.grid, file.at);
      AXONN_CHECK(0 <= stored.range.begin && stored.range.begin <= stored.range.end && stored.range.end <= block,
                  kWhere, file.name, " holds a range outside of the block of ", manifest.tensors[stored.tensor].name);
      check_arena_offset(file, stored, manifest.tensors[stored.tensor]);
    }
  }
}

// Converts every exception of `parse` into one error about this file.
template <typename Parse>
auto with_path(const fs::path& path, Parse parse) {
  try {
    return parse();
  } catch (const Error& error) {
    throw BrokenCheckpoint(kWhere, detail::concatenate(path.string(), " is broken: ", error.sentence()));
  } catch (const std::exception& error) {
    throw BrokenCheckpoint(kWhere, detail::concatenate(path.string(), " is broken: ", error.what()));
  }
}

void check_format(const Json& format, const Json& json) {
  const bool number = format.is_number_unsigned() && format > 0;
  AXONN_CHECK(!number || format <= Manifest::kNewestFormat, kWhere, "its format is ", format.dump(),
              ", written by a newer axonn (", json.value("axonn", "?"), "); this axonn (", version(),
              ") reads formats up to ", Manifest::kNewestFormat);
  AXONN_CHECK(number, kWhere, "its format is ", format.dump(), ", this axonn (", version(), ") reads formats 1 to ",
              Manifest::kNewestFormat);
}

void check_text(const std::string& text) {
  const size_t end = text.rfind(kChecksumKey);
  AXONN_CHECK(end != std::string::npos, kWhere, "its checksum is missing");
  const std::string found = disk::hex(disk::xxh64_of(std::string_view(text).substr(0, end)));
  const std::string_view rest = std::string_view(text).substr(end + kChecksumKey.size());
  AXONN_CHECK(rest == found + "\"\n}\n", kWhere, "its checksum is ", found, ", it should be ",
              rest.substr(0, found.size()));
}

}  // namespace

int format_for(const ShardSpec& spec, const std::optional<CheckpointCut>& cut) {
  const auto has_tiles = [](const Segment& segment) { return segment.tile > 1; };
  if (std::ranges::any_of(spec.dims, [&](const Dim& dim) { return std::ranges::any_of(dim.segments, has_tiles); }))
    return 3;
  return cut ? 2 : 1;
}

int Manifest::format() const {
  int format = 1;
  for (const auto& tensor : tensors) format = std::max(format, format_for(tensor.spec, tensor.cut));
  return format;
}

std::vector<Manifest::StoredRange> Manifest::ranges_in(const File& file) const {
  std::vector<StoredRange> found = file.ranges;
  std::vector<AxisSet> done;
  for (const auto& tensor : tensors) {
    if (!tensor.cut || tensor.cut->is_first(file.at)) continue;
    const AxisSet axes = tensor.cut->axis_set();
    if (std::ranges::find(done, axes) != done.end()) continue;
    done.push_back(axes);
    Coordinate first = file.at;
    for (const Axis axis : tensor.cut->axes) first[axis] = 0;
    const auto listing = std::ranges::find(files, first, &File::at);
    if (listing == files.end()) continue;
    std::ranges::copy_if(listing->ranges, std::back_inserter(found), [&](const StoredRange& stored) {
      const auto& cut = tensors[stored.tensor].cut;
      return cut && cut->axis_set() == axes;
    });
  }
  return found;
}

std::string Manifest::to_json() const {
  Json json = {{"format", format()},
               {"axonn", version()},
               {"run", state.run},
               {"grid", grid.to_string()},
               {"align", kRangeAlignment}};
  if (!state.start.empty()) json["start"] = state.start;
  json["step"] = state.step;
  json["seed"] = state.seed;
  json["samples"] = state.samples;
  json["data_fingerprint"] = disk::hex(state.data_fingerprint);
  json["configuration"] = Json::parse(state.configuration);
  json["tokenizer"] = Json::parse(state.tokenizer);
  if (const auto& scale = state.loss_scale)
    json["loss_scale"] = {
        {"value", scale->value}, {"good", scale->good}, {"skipped", scale->skipped}, {"in_a_row", scale->in_a_row}};
  if (const auto& spikes = state.spikes)
    json["spikes"] = {{"all", spikes->spikes},        {"skipped", spikes->skipped}, {"in_a_row", spikes->in_a_row},
                      {"left_out", spikes->left_out}, {"losses", spikes->losses},   {"norms", spikes->norms}};
  json["choices"] = Json(state.choices);
  json["tensors"] = Json::array();
  for (const auto& tensor : tensors) json["tensors"].push_back(tensor_to_json(tensor));
  json["files"] = Json::array();
  for (const auto& file : files) json["files"].push_back(file_json(file));
  std::string text = "{";
  for (const auto& [key, value] : json.items())
    text += (text.size() == 1 ? "\n" : ",\n") + Json(key).dump() + ": " + value.dump();
  return text + std::string(kChecksumKey) + disk::hex(disk::xxh64_of(text)) + "\"\n}\n";
}

Manifest Manifest::from_json(const std::string& text, const fs::path& path) {
  return with_path(path, [&] {
    AXONN_CHECK(is_shallow_json(text), kWhere, "it nests deeper than ", kMostJsonDepth, " levels; copy it again");
    const Json json = Json::parse(text);
    const Json format = json.value("format", Json());
    check_format(format, json);
    check_text(text);
    Manifest manifest;
    manifest.grid = parse_grid_shape(json.at("grid").get<std::string>());
    manifest.state = {.run = json.at("run").get<std::string>(),
                      .start = json.value("start", std::string()),
                      .step = json.at("step").get<int64_t>(),
                      .seed = json.at("seed").get<uint64_t>(),
                      .samples = json.at("samples").get<int64_t>(),
                      .data_fingerprint = std::stoull(json.at("data_fingerprint").get<std::string>(), nullptr, 16),
                      .configuration = json.at("configuration").dump(),
                      .tokenizer = json.at("tokenizer").dump(),
                      .loss_scale = {},
                      .spikes = {},
                      .choices = json.at("choices").get<std::map<std::string, std::string>>()};
    if (const auto scale = json.find("loss_scale"); scale != json.end())
      manifest.state.loss_scale = {.value = scale->at("value").get<double>(),
                                   .good = scale->at("good").get<int64_t>(),
                                   .skipped = scale->at("skipped").get<int64_t>(),
                                   .in_a_row = scale->at("in_a_row").get<int64_t>()};
    if (const auto spikes = json.find("spikes"); spikes != json.end())
      manifest.state.spikes = {.losses = spikes->at("losses").get<std::vector<double>>(),
                               .norms = spikes->at("norms").get<std::vector<double>>(),
                               .spikes = spikes->at("all").get<int64_t>(),
                               .skipped = spikes->at("skipped").get<int64_t>(),
                               .in_a_row = spikes->at("in_a_row").get<int64_t>(),
                               .left_out = spikes->at("left_out").get<int64_t>()};
    for (const Json& item : json.at("tensors")) manifest.tensors.push_back(tensor_from_json(item));
    for (const Json& item : json.at("files")) manifest.files.push_back(file_of(item));
    check_consistent(manifest);
    return manifest;
  });
}

std::string file_to_json(const Manifest::File& file) { return file_json(file).dump(); }

Manifest::File file_from_json(const std::string& text, const fs::path& path) {
  return with_path(path, [&] { return file_of(Json::parse(text)); });
}

Manifest read_manifest(const fs::path& directory) {
  const fs::path path = directory / Manifest::kFileName;
  AXONN_CHECK(fs::is_regular_file(path), kWhere, "there is no checkpoint in ", directory.string(), ": ",
              Manifest::kFileName, " is missing");
  Manifest manifest = Manifest::from_json(disk::read_text(path), path);
  for (const auto& file : manifest.files) {
    std::error_code error;
    const auto size = fs::file_size(directory / file.name, error);
    const std::string name = (directory / file.name).string();
    if (error) throw BrokenCheckpoint(kWhere, detail::concatenate(name, " is missing: ", error.message()));
    if (!std::cmp_equal(size, file.bytes))
      throw BrokenCheckpoint(
          kWhere, detail::concatenate(name, " is broken: it has ", size, " bytes, the manifest says ", file.bytes));
  }
  return manifest;
}

void check_file(const fs::path& directory, const Manifest::File& file) {
  check_sum(directory, file, disk::xxh64_of_file(directory / file.name));
}

void check_sum(const fs::path& directory, const Manifest::File& file, uint64_t xxh64) {
  const std::string found = disk::hex(xxh64);
  if (found == file.xxh64) return;
  throw BrokenCheckpoint(kWhere, detail::concatenate((directory / file.name).string(), " is broken: its checksum is ",
                                                     found, ", the manifest says ", file.xxh64));
}

}  // namespace axonn
