#include "checkpoint/manifest/manifest_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "checkpoint/manifest/part_json.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kWhere = "checkpoint.manifest";

// Depths in the text.
constexpr int64_t kInList = 2, kInPart = 3;

// Takes what the parser meets: an interface of nlohmann's sax_parse().
class TreeMaker {
 public:
  TreeMaker(Json& root, ManifestParts& parts) : root_(root), parts_(parts) {}

  bool null() { return other(Json()); }
  bool boolean(bool value) { return other(value); }
  bool number_integer(int64_t value) { return number_or_text(value); }
  bool number_unsigned(uint64_t value) { return number_or_text(value); }
  bool number_float(double value, const std::string&) { return other(value); }
  bool string(std::string& value) { return number_or_text(std::move(value)); }
  bool binary(Json::binary_t&) { return other(Json()); }  // not in a text

  bool start_object(size_t) { return open(Json::object()); }
  bool key(std::string& name) {
    if (!in_parts_) key_ = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }

  [[noreturn]] bool parse_error(size_t, const std::string&, const Json::exception& error) {
    throw UserError(kWhere, error.what());
  }

 private:
  Json& put(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& in = *open_.back();
    if (in.is_object()) return in[key_] = std::move(value);
    in.push_back(std::move(value));
    return in.back();
  }

  template <typename Value>
  bool number_or_text(Value&& value) {
    if (!in_parts_)
      put(std::forward<Value>(value));
    else if (depth_ <= kInPart)
      take([&] { values_.take(std::forward<Value>(value)); });
    return true;
  }

  template <typename Value>
  bool other(Value value) {
    if (!in_parts_)
      put(value);
    else if (depth_ <= kInPart)
      take([&] { values_.take_other(); });
    return true;
  }

  // A value beside the parts is a part of one value, which is refused.
  template <typename Take>
  void take(Take value) {
    if (depth_ == kInList) values_.begin();
    value();
    if (depth_ == kInList) end_part();
  }

  bool open(Json value) {
    ++depth_;
    AXONN_CHECK(depth_ <= kMostJsonDepth, kWhere, "it nests deeper than ", kMostJsonDepth, " levels; copy it again");
    if (in_parts_) {
      if (depth_ == kInPart) values_.begin();
      if (depth_ == kInPart + 1 || value.is_object()) values_.take_other();
      return true;
    }
    in_parts_ = depth_ == kInList && value.is_array() && root_.is_object() && key_ == "parts";
    if (in_parts_) parts_ = {};
    open_.push_back(&put(std::move(value)));
    return true;
  }

  bool close() {
    if (in_parts_ && depth_ == kInPart) end_part();
    if (depth_ == kInList) in_parts_ = false;
    if (!in_parts_) open_.pop_back();
    --depth_;
    return true;
  }

  void end_part() {
    if (parts_.fault) return;
    try {
      parts_.list.push_back(values_.part());
    } catch (const UserError&) {
      parts_.fault = std::current_exception();
    }
  }

  Json& root_;
  ManifestParts& parts_;
  std::vector<Json*> open_;  // objects and arrays of the tree, the innermost last
  std::string key_;
  int64_t depth_ = 0;
  bool in_parts_ = false;
  PartValues values_;
};

}  // namespace

Json manifest_tree(const std::string& text, ManifestParts& parts) {
  Json root;
  TreeMaker maker(root, parts);
  Json::sax_parse(text, &maker);
  return root;
}

}  // namespace axonn
