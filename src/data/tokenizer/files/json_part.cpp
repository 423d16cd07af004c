#include "data/tokenizer/files/json_part.hpp"

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";
constexpr size_t kMostShown = 400;  // bytes; the longest pattern in use has about 300

}  // namespace

nlohmann::json parse_json(const FileText& file) {
  AXONN_CHECK(is_shallow_json(file.text), kWhere, file.name(), " nests deeper than JSON of a tokenizer; use another");
  try {
    nlohmann::json json = nlohmann::json::parse(file.text);
    AXONN_CHECK(json.is_object(), kWhere, file.name(), " is not a JSON object; download it again");
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    throw UserError(kWhere, detail::concatenate(file.name(), " is not JSON at byte ", error.byte,
                                                "; download it again, it may be cut short"));
  } catch (const nlohmann::json::out_of_range&) {
    throw UserError(kWhere, detail::concatenate(file.name(), " has a number that no double holds; download it again"));
  }
}

std::string JsonPart::shown() const {
  const std::string text = value_->dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

bool JsonPart::has(std::string_view key) const {
  AXONN_CHECK(value_->is_object(), kWhere, name_, " must be an object, got ", shown());
  const auto found = value_->find(std::string(key));
  return found != value_->end() && !found->is_null();
}

JsonPart JsonPart::at(std::string_view key) const {
  AXONN_CHECK(has(key), kWhere, name_, " must have the key '", printable(key), "'");
  return {name_ + ": '" + printable(key) + "'", (*value_)[std::string(key)]};
}

std::vector<JsonPart> JsonPart::list(std::string_view key) const {
  const JsonPart all = at(key);
  AXONN_CHECK(all.value().is_array(), kWhere, all.name(), " must be a list, got ", all.shown());
  std::vector<JsonPart> parts;
  for (const auto& one : all.value()) parts.emplace_back(all.name(), one);
  return parts;
}

std::string JsonPart::word(std::string_view key) const {
  const JsonPart part = at(key);
  AXONN_CHECK(part.value().is_string(), kWhere, part.name(), " must be a text, got ", part.shown());
  return part.value().get<std::string>();
}

std::string JsonPart::word_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? word(key) : std::string(fallback);
}

bool JsonPart::flag_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const JsonPart part = at(key);
  AXONN_CHECK(part.value().is_boolean(), kWhere, part.name(), " must be true or false, got ", part.shown());
  return part.value().get<bool>();
}

int64_t JsonPart::whole() const {
  AXONN_CHECK(value_->is_number_integer(), kWhere, name_, " must be a whole number, got ", shown());
  return value_->get<int64_t>();
}

double JsonPart::number() const {
  AXONN_CHECK(value_->is_number(), kWhere, name_, " must be a number, got ", shown());
  return value_->get<double>();
}

void refuse(const JsonPart& part, std::string_view what, std::string_view known) {
  throw UserError(kWhere, detail::concatenate(part.name(), " asks for ", printable(what),
                                              "; axonn's tokenizers have only ", known));
}

}  // namespace axonn
