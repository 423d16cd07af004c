#include "perfmodel/hugging_face/config_json.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "axonn/core/error.hpp"
#include "axonn/core/json_depth.hpp"
#include "axonn/core/sentence.hpp"
#include "perfmodel/hugging_face/families.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.network_file";

}  // namespace

ConfigJson::ConfigJson(const std::filesystem::path& path) : name_(path.string()) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), kWhere, "cannot read ", name_, ": ",
              why_not_read(path.native()));
  const std::string text(std::istreambuf_iterator<char>(in), {});
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

std::optional<int64_t> ConfigJson::find_whole(std::string_view key, int64_t least) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::nullopt;
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  const bool fits = found->is_number_unsigned() && found->get<uint64_t>() >= static_cast<uint64_t>(least) &&
                    found->get<uint64_t>() <= kMost;
  AXONN_CHECK(fits, kWhere, name_, ": '", std::string(key), "' must be a whole number from ", least, " to ", kMost,
              ", got ", found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return found->get<int64_t>();
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
              found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return found->get<bool>();
}

int64_t ConfigJson::length_or(std::string_view key, int64_t fallback) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return fallback;
  AXONN_CHECK(found->is_array(), kWhere, name_, ": '", std::string(key), "' must be a list");
  return static_cast<int64_t>(found->size());
}

std::optional<int64_t> ConfigJson::find_repeats(std::string_view key, std::string_view word) const {
  const nlohmann::json* found = find(key);
  if (found == nullptr) return std::nullopt;
  AXONN_CHECK(found->is_array(), kWhere, name_, ": '", std::string(key), "' must be a list");
  return std::ranges::count_if(*found, [&](const nlohmann::json& one) { return one.is_string() && one == word; });
}

void ConfigJson::refuse(const std::string& what) const {
  throw UserError(kWhere,
                  detail::concatenate(name_, " describes a network ", what, ", and this planner knows ", family_names(),
                                      ": to plan one that is close enough, give --layers, --hidden, --heads, "
                                      "--sequence and --vocab"));
}

}  // namespace axonn
