// Fields of texts, and of what is written as text.
#include <algorithm>
#include <optional>
#include <utility>

#include "axonn/core/join.hpp"
#include "axonn/core/utf8.hpp"
#include "config/option_field.hpp"

namespace axonn {
namespace {

using Json = OptionField::Json;
using Words = OptionField::Words;

// Texts may be paths, which are any bytes; JSON is UTF-8.
Json json_of(const std::string& value) { return to_utf8(value); }

Json json_of(const Words& values) {
  Json list = Json::array();
  for (const std::string& value : values) list.push_back(to_utf8(value));
  return list;
}

std::optional<Words> words_of(const Json& value) {
  Words words;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    if (!item.is_string()) return std::nullopt;
    words.push_back(from_utf8(item.get<std::string>()));
  }
  return words;
}

class StringField final : public OptionField {
 public:
  explicit StringField(std::string& value) : value_(value) {}
  std::string type() const override { return "TEXT"; }
  std::string need() const override { return "a string"; }
  Json json() const override { return json_of(value_); }
  std::string text() const override { return value_; }
  bool read(const Json& value, const std::string&, bool store) override {
    if (!value.is_string()) return false;
    if (store) value_ = from_utf8(value.get<std::string>());
    return true;
  }
  void read(const Words& words, const std::string&) override { value_ = words.back(); }

 private:
  std::string& value_;
};

// Paths, which may hold commas: one word each.
class StringsField final : public OptionField {
 public:
  explicit StringsField(std::vector<std::string>& values) : values_(values) {}
  Takes takes() const override { return Takes::some; }
  std::string type() const override { return "TEXT"; }
  std::string need() const override { return "a string or a list of strings"; }
  Json json() const override { return json_of(values_); }
  std::string text() const override { return join(values_, " "); }
  bool read(const Json& value, const std::string&, bool store) override {
    auto words = words_of(value);
    if (words && store) values_ = *std::move(words);
    return words.has_value();
  }
  void read(const Words& words, const std::string&) override { values_ = words; }

 private:
  std::vector<std::string>& values_;
};

class TextField final : public OptionField {
 public:
  explicit TextField(TextValue value) : value_(std::move(value)) {}
  std::string type() const override { return value_.type; }
  std::string need() const override { return "a string"; }
  Json json() const override { return json_of(value_.print()); }
  std::string text() const override { return value_.print(); }
  bool read(const Json& value, const std::string& subject, bool store) override {
    if (value.is_string()) value_.parse(from_utf8(value.get<std::string>()), subject, store);
    return value.is_string();
  }
  void read(const Words& words, const std::string& flag) override { value_.parse(words.back(), flag, /*store=*/true); }

 private:
  TextValue value_;
};

class TextsField final : public OptionField {
 public:
  explicit TextsField(TextValues values) : values_(std::move(values)) {}
  Takes takes() const override { return Takes::some; }
  std::string type() const override { return values_.type + ",..."; }
  std::string need() const override { return "a string or a list of strings"; }
  Json json() const override { return json_of(values_.print()); }
  std::string text() const override { return join(values_.print(), ","); }
  bool read(const Json& value, const std::string& subject, bool store) override {
    const auto words = words_of(value);
    if (words) values_.parse(*words, subject, store);
    return words.has_value();
  }
  void read(const Words& words, const std::string& flag) override { values_.parse(split(words), flag, /*store=*/true); }

 private:
  TextValues values_;
};

}  // namespace

OptionField::Words split(const OptionField::Words& words) {
  OptionField::Words parts;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    for (size_t begin = 0; begin <= word.size();) {
      const size_t end = std::min(word.find(',', begin), word.size());
      parts.push_back(word.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

std::unique_ptr<OptionField> make_field(std::string& value) { return std::make_unique<StringField>(value); }
std::unique_ptr<OptionField> make_field(std::vector<std::string>& values) {
  return std::make_unique<StringsField>(values);
}
std::unique_ptr<OptionField> make_field(TextValue value) { return std::make_unique<TextField>(std::move(value)); }
std::unique_ptr<OptionField> make_field(TextValues values) { return std::make_unique<TextsField>(std::move(values)); }

}  // namespace axonn
