#include "checkpoint/manifest/tensor_json.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/core/error.hpp"
#include "checkpoint/shards/held_range.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kWhere = "checkpoint.manifest";
constexpr int64_t kGreatestTile = int64_t{1} << 20;

Json dim_to_json(const Dim& dim) {
  Json list = Json::array();
  for (const Segment& segment : dim.segments) {
    const Json axis = segment.axis ? Json(std::string(to_string(*segment.axis))) : Json(nullptr);
    list.push_back({{"size", segment.size}, {"axis", axis}, {"padded", segment.tile > 0}});
    if (segment.tile > 1) list.back()["tile"] = segment.tile;
  }
  return list;
}

Axis parse_axis(const std::string& name) {
  const auto found = std::ranges::find_if(kAxes, [&](Axis axis) { return to_string(axis) == name; });
  AXONN_CHECK(found != kAxes.end(), kWhere, "no axis '", name, "'");
  return *found;
}

Dim dim_from_json(const Json& list) {
  Dim dim;
  for (const Json& item : list) {
    const int64_t tile = item.at("padded").get<bool>() ? item.value("tile", int64_t{1}) : 0;
    Segment segment{.size = item.at("size").get<int64_t>(), .axis = std::nullopt, .tile = tile};
    if (!item.at("axis").is_null()) segment.axis = parse_axis(item.at("axis").get<std::string>());
    AXONN_CHECK(segment.size >= 0 && segment.tile >= 0 && segment.tile <= kGreatestTile, kWhere, "a segment of size ",
                segment.size, " in tiles of ", segment.tile);
    dim.segments.push_back(segment);
  }
  return dim;
}

Json cut_to_json(const CheckpointCut& cut) {
  Json axes = Json::array();
  for (const Axis axis : cut.axes) axes.push_back(std::string(to_string(axis)));
  return {{"axes", axes}, {"block", cut.block}};
}

CheckpointCut cut_from_json(const Json& item) {
  CheckpointCut cut{.axes = {}, .block = item.at("block").get<int64_t>()};
  for (const Json& axis : item.at("axes")) cut.axes.push_back(parse_axis(axis.get<std::string>()));
  return cut;
}

// So that no sum or product of sizes overflows.
void check_sizes(const CheckpointReader::Description& tensor) {
  constexpr int64_t kMostNumbers = int64_t{1} << 48;
  int64_t numbers = 1;
  const auto fine = [&](const Dim& dim) {
    int64_t size = 0;
    for (const Segment& segment : dim.segments) {
      if (segment.size > kMostNumbers - size) return false;
      size += segment.size;
    }
    return !__builtin_mul_overflow(numbers, std::max<int64_t>(size, 1), &numbers) && numbers <= kMostNumbers;
  };
  AXONN_CHECK(std::ranges::all_of(tensor.spec.dims, fine), kWhere, "tensor ", tensor.name, " has more than ",
              kMostNumbers, " numbers; copy it again");
}

}  // namespace

Json tensor_to_json(const CheckpointReader::Description& tensor) {
  Json dims = Json::array();
  for (const Dim& dim : tensor.spec.dims) dims.push_back(dim_to_json(dim));
  Json json = {{"name", tensor.name},
               {"dtype", safetensors::dtype_name(tensor.dtype)},
               {"shape", tensor.spec.global_shape()},
               {"dims", dims},
               {"over_z", tensor.spec.over_z}};
  if (tensor.cut) json["cut"] = cut_to_json(*tensor.cut);
  return json;
}

CheckpointReader::Description tensor_from_json(const Json& item) {
  CheckpointReader::Description tensor;
  tensor.name = item.at("name").get<std::string>();
  tensor.dtype = safetensors::scalar_type(item.at("dtype").get<std::string>());
  for (const Json& dim : item.at("dims")) tensor.spec.dims.push_back(dim_from_json(dim));
  check_sizes(tensor);
  tensor.spec.over_z = item.at("over_z").get<bool>();
  AXONN_CHECK(item.at("shape").get<std::vector<int64_t>>() == tensor.spec.global_shape(), kWhere, "tensor ",
              tensor.name, " has a shape that its dims do not have");
  if (const auto cut = item.find("cut"); cut != item.end()) {
    tensor.cut = cut_from_json(*cut);
    check_cut(*tensor.cut, tensor.spec, tensor.name, kWhere);
  }
  return tensor;
}

}  // namespace axonn
