// manifest.json as text. Its head is the same in all formats.
#include <exception>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/broken_checkpoint.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/version.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/manifest/manifest_checks.hpp"
#include "checkpoint/manifest/manifest_tree.hpp"
#include "checkpoint/manifest/old_formats.hpp"
#include "checkpoint/manifest/part_json.hpp"
#include "checkpoint/manifest/tensor_json.hpp"
#include "checkpoint/shards/held_range.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
constexpr const char* kWhere = "checkpoint.manifest";

constexpr std::string_view kChecksumKey = ",\n\"manifest_xxh64\": \"";

void read_parts(const Json& json, ManifestParts&& parts, Manifest& manifest) {
  manifest.places = json.at("places").get<std::vector<std::vector<int64_t>>>();
  for (const Json& item : json.at("files"))
    manifest.files.push_back({plain_file_name(item.at("name").get<std::string>()), item.at("bytes").get<int64_t>()});
  AXONN_CHECK(json.at("parts").is_array(), kWhere, "its parts are no list; copy it again");
  if (parts.fault) std::rethrow_exception(parts.fault);
  manifest.parts = std::move(parts.list);
}

bool lies_in(Range range, int64_t bytes) { return 0 <= range.begin && range.begin <= range.end && range.end <= bytes; }

void check_part(const Manifest& manifest, const Manifest::Part& part) {
  AXONN_CHECK(part.file < manifest.files.size(), kWhere, "a part lies in file number ", part.file);
  const auto& [name, bytes] = manifest.files[part.file];
  check_on_grid(manifest, part);
  AXONN_CHECK(lies_in(part.header, bytes) && lies_in(part.data, bytes), kWhere, "a part of ", part.at.to_string(),
              " lies outside of ", name);
  if (!manifest.has_rule()) return;
  for (const Axis axis : kAxes)
    AXONN_CHECK(part.at[axis] == 0 || !part.replicated.contains(axis), kWhere, name, " holds a part of ",
                part.at.to_string(), ", which another rank writes");
  AXONN_CHECK(part.places < manifest.places.size(), kWhere, name, " holds a part with places number ", part.places);
}

void check_places(const Manifest& manifest) {
  for (const auto& places : manifest.places) {
    AXONN_CHECK(places.size() == manifest.tensors.size(), kWhere, places.size(), " places of ", manifest.tensors.size(),
                " tensors");
    for (size_t i = 0; i < places.size(); ++i)
      if (manifest.tensors[i].cut) check_place(places[i], manifest.tensors[i].name, kWhere);
  }
}

void check_consistent(const Manifest& manifest) {
  for (const auto& tensor : manifest.tensors)
    if (tensor.cut) tensor.cut->owners(manifest.grid);
  check_places(manifest);
  for (const auto& part : manifest.parts) check_part(manifest, part);
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

int format_of(const Json& json) {
  const Json format = json.value("format", Json());
  const bool number = format.is_number_unsigned() && format > 0;
  AXONN_CHECK(!number || format <= Manifest::kNewestFormat, kWhere, "its format is ", format.dump(),
              ", written by a newer axonn (", json.value("axonn", "?"), "); this axonn (", version(),
              ") reads formats up to ", Manifest::kNewestFormat);
  AXONN_CHECK(number, kWhere, "its format is ", format.dump(), ", this axonn (", version(), ") reads formats 1 to ",
              Manifest::kNewestFormat);
  return format.get<int>();
}

void check_text(const std::string& text) {
  const size_t end = text.rfind(kChecksumKey);
  AXONN_CHECK(end != std::string::npos, kWhere, "its checksum is missing");
  const std::string found = disk::hex(disk::xxh64_of(std::string_view(text).substr(0, end)));
  const std::string_view rest = std::string_view(text).substr(end + kChecksumKey.size());
  AXONN_CHECK(rest == found + "\"\n}\n", kWhere, "its checksum is ", found, ", it should be ",
              rest.substr(0, found.size()));
}

Json state_json(const Manifest& manifest) {
  const CheckpointState& state = manifest.state;
  Json json = {{"format", Manifest::kNewestFormat},
               {"axonn", version()},
               {"run", state.run},
               {"grid", manifest.grid.to_string()},
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
  return json;
}

CheckpointState state_of(const Json& json) {
  CheckpointState state{.run = json.at("run").get<std::string>(),
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
    state.loss_scale = {.value = scale->at("value").get<double>(),
                        .good = scale->at("good").get<int64_t>(),
                        .skipped = scale->at("skipped").get<int64_t>(),
                        .in_a_row = scale->at("in_a_row").get<int64_t>()};
  if (const auto spikes = json.find("spikes"); spikes != json.end())
    state.spikes = {.losses = spikes->at("losses").get<std::vector<double>>(),
                    .norms = spikes->at("norms").get<std::vector<double>>(),
                    .spikes = spikes->at("all").get<int64_t>(),
                    .skipped = spikes->at("skipped").get<int64_t>(),
                    .in_a_row = spikes->at("in_a_row").get<int64_t>(),
                    .left_out = spikes->at("left_out").get<int64_t>()};
  return state;
}

}  // namespace

std::string Manifest::to_json() const {
  Json json = state_json(*this);
  json["tensors"] = Json::array();
  for (const auto& tensor : tensors) json["tensors"].push_back(tensor_to_json(tensor));
  json["places"] = places;
  json["files"] = Json::array();
  for (const auto& file : files) json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  json["parts"] = Json::array();
  for (const auto& part : parts) json["parts"].push_back(part_to_json(part));
  std::string text = "{";
  for (const auto& [key, value] : json.items())
    text += (text.size() == 1 ? "\n" : ",\n") + Json(key).dump() + ": " + value.dump();
  return text + std::string(kChecksumKey) + disk::hex(disk::xxh64_of(text)) + "\"\n}\n";
}

Manifest Manifest::from_json(const std::string& text, const fs::path& path) {
  return with_path(path, [&] {
    ManifestParts parts;
    const Json json = manifest_tree(text, parts);
    Manifest manifest;
    manifest.format = format_of(json);
    check_text(text);
    manifest.grid = parse_grid_shape(json.at("grid").get<std::string>());
    manifest.state = state_of(json);
    for (const Json& item : json.at("tensors")) manifest.tensors.push_back(tensor_from_json(item));
    if (manifest.has_rule())
      read_parts(json, std::move(parts), manifest);
    else
      read_old_files(json, manifest);
    check_consistent(manifest);
    return manifest;
  });
}

}  // namespace axonn
