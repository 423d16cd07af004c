#include "checkpoint/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"

namespace axonn::safetensors {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kAlignment = 8;

struct TypeName {
  c10::ScalarType type;
  std::string_view name;
};
constexpr std::array<TypeName, 10> kTypes = {{{c10::ScalarType::Double, "F64"},
                                              {c10::ScalarType::Float, "F32"},
                                              {c10::ScalarType::Half, "F16"},
                                              {c10::ScalarType::BFloat16, "BF16"},
                                              {c10::ScalarType::Long, "I64"},
                                              {c10::ScalarType::Int, "I32"},
                                              {c10::ScalarType::Short, "I16"},
                                              {c10::ScalarType::Char, "I8"},
                                              {c10::ScalarType::Byte, "U8"},
                                              {c10::ScalarType::Bool, "BOOL"}}};

std::optional<int64_t> whole_number(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return value.get<int64_t>();
}

std::optional<std::vector<int64_t>> whole_numbers(const Json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& item : list) {
    const auto number = whole_number(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// nlohmann silently keeps the last of two equal keys.
Json parse_unique(std::string_view header, const std::filesystem::path& path) {
  std::set<std::string> names;
  const auto unique = [&](int depth, Json::parse_event_t event, Json& key) {
    if (depth == 1 && event == Json::parse_event_t::key)
      AXONN_CHECK(names.insert(key.get<std::string>()).second, "checkpoint.safetensors", path.string(), ": tensor ",
                  key.dump(), " occurs twice");
    return true;
  };
  AXONN_CHECK(is_shallow_json(header), "checkpoint.safetensors", path.string(), ": the header nests deeper than ",
              kMostJsonDepth, " levels; copy the file again");
  Json parsed = Json::parse(header, unique, /*allow_exceptions=*/false);
  AXONN_CHECK(parsed.is_object(), "checkpoint.safetensors", path.string(), ": the header is not a JSON object");
  return parsed;
}

Metadata parse_metadata(const Json& value, const std::filesystem::path& path) {
  Metadata metadata;
  AXONN_CHECK(value.is_object(), "checkpoint.safetensors", path.string(), ": __metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    AXONN_CHECK(text.is_string(), "checkpoint.safetensors", path.string(),
                ": __metadata__ holds something else than texts");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

File::Entry parse_entry(const std::string& name, const Json& value, const std::filesystem::path& path) {
  const auto complain = [&](bool fine, std::string_view what) {
    AXONN_CHECK(fine, "checkpoint.safetensors", path.string(), ": tensor ", Json(name).dump(), " ", what);
  };
  const auto has = [&](const char* key) { return value.is_object() && value.contains(key); };
  complain(has("dtype") && has("shape") && has("data_offsets") && value["dtype"].is_string(),
           "lacks a dtype, a shape or data_offsets");
  const auto dtype = value["dtype"].get<std::string>();
  const auto* known = std::ranges::find(kTypes, dtype, &TypeName::name);
  complain(known != kTypes.end(), "has a dtype that is not known here: " + dtype);
  const auto shape = whole_numbers(value["shape"]), offsets = whole_numbers(value["data_offsets"]);
  complain(shape.has_value(), "has a shape that is not a list of whole numbers");
  complain(offsets && offsets->size() == 2 && offsets->front() <= offsets->back(),
           "has data_offsets that are not [begin, end]");
  File::Entry entry{name, known->type, *shape, offsets->front(), offsets->back()};
  complain(bytes_of(entry.shape, entry.dtype) == entry.size_bytes(), "has a shape that does not agree with its bytes");
  return entry;
}

}  // namespace

std::string_view dtype_name(c10::ScalarType type) {
  const auto* found = std::ranges::find(kTypes, type, &TypeName::type);
  AXONN_CHECK(found != kTypes.end(), "checkpoint.safetensors", "tensors of type ", c10::toString(type),
              " cannot be stored");
  return found->name;
}

c10::ScalarType scalar_type(std::string_view dtype) {
  const auto* found = std::ranges::find(kTypes, dtype, &TypeName::name);
  AXONN_CHECK(found != kTypes.end(), "checkpoint.safetensors", "dtype '", dtype, "' is not known");
  return found->type;
}

std::optional<int64_t> bytes_of(const std::vector<int64_t>& shape, c10::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

std::string header_of(std::span<const View* const> tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names = {"__metadata__"};
  int64_t offset = 0;
  for (const View* tensor : tensors) {
    AXONN_CHECK(names.insert(tensor->name).second, "checkpoint.safetensors", "tensor name '", tensor->name,
                "' cannot be used twice in a file");
    const std::optional<int64_t> bytes = bytes_of(tensor->shape, tensor->dtype);
    AXONN_ASSERT(bytes.has_value(), "tensor ", tensor->name, " has a shape that no tensor has");
    const int64_t end = offset + *bytes;
    header[tensor->name] = {
        {"dtype", dtype_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

void File::parse_header(std::string_view header, int64_t data_bytes) {
  const Json parsed = parse_unique(header, path_);
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      metadata_ = parse_metadata(value, path_);
    } else {
      entries_.push_back(parse_entry(name, value, path_));
    }
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  int64_t end = 0;
  for (const Entry& entry : entries_) {
    AXONN_CHECK(entry.begin == end, "checkpoint.safetensors", path_.string(), ": tensor ", Json(entry.name).dump(),
                " begins at byte ", entry.begin, " of the data, the one before it ends at ", end);
    end = entry.end;
  }
  AXONN_CHECK(end == data_bytes, "checkpoint.safetensors", path_.string(), ": the tensors take ", end,
              " bytes, the file holds ", data_bytes, " bytes of data");
}

}  // namespace axonn::safetensors
