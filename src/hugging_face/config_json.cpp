#include "hugging_face/config_json.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/hugging_face/config_file.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "hugging_face.config";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), kWhere, "cannot read ", path.string(), ": ",
              why_not_read(path.native()));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string shown(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

ConfigJson::ConfigJson(const std::filesystem::path& path) : ConfigJson(path.string(), text_of(path)) {}

ConfigJson::ConfigJson(std::string name, const std::string& text) : name_(std::move(name)), text_(text) {
  if (is_shallow_json(text)) file_ = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(file_.is_object(), kWhere, name_, " is not a JSON object");
}

const nlohmann::json* ConfigJson::find(std::string_view key) const {
  const auto found = file_.find(std::string(key));
  return found == file_.end() || found->is_null() ? nullptr : &*found;
}

std::string ConfigJson::model_type() const {
  const nlohmann::json* type = find("model_type");
  AXONN_CHECK(type != nullptr && type->is_string(), kWhere, name_,
              ": 'model_type' is missing; it says which network this is, and the planner knows ", family_names());
  return type->get<std::string>();
}

int64_t ConfigJson::whole(const nlohmann::json& value, std::string_view key, int64_t least) const {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() >= static_cast<uint64_t>(least) &&
                    value.get<uint64_t>() <= kMost;
  AXONN_CHECK(fits, kWhere, name_, ": '", std::string(key), "' must be a whole number from ", least, " to ", kMost,
              ", got ", shown(value));
  return value.get<int64_t>();
}

std::optional<int64_t> ConfigJson::find_whole(std::string_view key, int64_t least) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::nullopt;
  return whole(*found, key, least);
}

std::vector<int64_t> ConfigJson::counts(std::string_view key) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return {};
  if (!found->is_array()) return {whole(*found, key, 0)};
  std::vector<int64_t> all;
  for (const auto& each : *found) all.push_back(whole(each, key, 0));
  return all;
}

std::optional<int64_t> ConfigJson::find_size(std::string_view key) const { return find_whole(key, 1); }

int64_t ConfigJson::size(std::string_view key) const {
  const auto found = find_size(key);
  AXONN_CHECK(found, kWhere, name_, ": '", std::string(key), "' is missing, and this network needs it");
  return *found;
}

int64_t ConfigJson::size_or(std::string_view key, int64_t fallback) const { return find_size(key).value_or(fallback); }

int64_t ConfigJson::count_or(std::string_view key, int64_t fallback) const {
  return find_whole(key, 0).value_or(fallback);
}

int64_t ConfigJson::window_or(std::string_view key, int64_t fallback) const {
  return count_or(key, file_.contains(std::string(key)) ? 0 : fallback);
}

bool ConfigJson::flag_or(std::string_view key, bool fallback) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return fallback;
  AXONN_CHECK(found->is_boolean(), kWhere, name_, ": '", std::string(key), "' must be true or false, got ",
              shown(*found));
  return found->get<bool>();
}

int64_t ConfigJson::length_or(std::string_view key, int64_t fallback) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return fallback;
  AXONN_CHECK(found->is_array(), kWhere, name_, ": '", std::string(key), "' must be a list");
  return static_cast<int64_t>(found->size());
}

std::optional<std::vector<int64_t>> ConfigJson::find_places(std::string_view key, std::string_view word) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::nullopt;
  AXONN_CHECK(found->is_array(), kWhere, name_, ": '", std::string(key), "' must be a list");
  std::vector<int64_t> places;
  for (size_t i = 0; i < found->size(); ++i)
    if ((*found)[i].is_string() && (*found)[i] == word) places.push_back(static_cast<int64_t>(i));
  return places;
}

double ConfigJson::positive_or(std::string_view key, double fallback) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return fallback;
  const double value = found->is_number() ? found->get<double>() : 0;
  AXONN_CHECK(value > 0 && std::isfinite(value), kWhere, name_, ": '", std::string(key),
              "' must be a number above 0, got ", shown(*found));
  return value;
}

double ConfigJson::positive(std::string_view key) const {
  AXONN_CHECK(has(key), kWhere, name_, ": '", std::string(key), "' is missing, and this network needs it");
  return positive_or(key, 0);
}

std::string ConfigJson::word_or(std::string_view key, std::string_view fallback) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::string(fallback);
  AXONN_CHECK(found->is_string(), kWhere, name_, ": '", std::string(key), "' must be a word, got ", shown(*found));
  return found->get<std::string>();
}

std::optional<ConfigJson> ConfigJson::find_object(std::string_view key) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::nullopt;
  AXONN_CHECK(found->is_object(), kWhere, name_, ": '", std::string(key), "' must be an object, got ", shown(*found));
  ConfigJson object;
  object.name_ = name_ + ": '" + std::string(key) + "'";
  object.file_ = *found;
  return object;
}

void ConfigJson::refuse(const std::string& what) const {
  throw UserError(kWhere,
                  detail::concatenate(name_, " describes a network ", what, ", and this planner knows ", family_names(),
                                      ": to plan one that is close enough, give --layers, --hidden, --heads, "
                                      "--sequence and --vocab"));
}

void ConfigJson::refuse_to_train(const std::string& what) const {
  throw NotTrained(kWhere, detail::concatenate(name_, " describes a network ", what,
                                               ", which cannot be trained yet; those that can are ",
                                               trained_family_names(), ", with plain or llama3's rotations"));
}

}  // namespace axonn
