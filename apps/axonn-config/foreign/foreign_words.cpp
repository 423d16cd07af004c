#include "foreign/foreign_words.hpp"

#include <charconv>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/json/json_depth.hpp>
#include <axonn/core/text.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.export";
using Json = nlohmann::ordered_json;

int64_t whole(const std::string& text, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool read = error == std::errc() && end == text.data() + text.size();
  AXONN_CHECK(read && value >= 1 && value <= (1 << 30), kWhere, what, " must be a whole number from 1, got '", text,
              "'");
  return value;
}

void add_words(ForeignWords& words, const std::string& prefix, const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object())
      add_words(words, prefix + key + ".", value);
    else
      words[prefix + key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

}  // namespace

ForeignWords words_of_arguments(const std::string& text) {
  std::istringstream in(text);
  ForeignWords words;
  std::string key, word;
  while (in >> word) {
    if (word == "\\") continue;
    const auto equals = word.find('=');
    if (word.starts_with("--") && equals != std::string::npos)
      words[word.substr(2, equals - 2)] = word.substr(equals + 1);
    else if (word.starts_with("--"))
      words[key = word.substr(2)] = "";
    else if (!key.empty())
      words[key] = word;
  }
  return words;
}

ForeignWords words_of_toml(const std::string& text) {
  std::istringstream in(text);
  ForeignWords words;
  std::string section;
  for (std::string line; std::getline(in, line);) {
    const std::string_view trimmed = axonn::trimmed(std::string_view(line).substr(0, line.find('#')));
    const auto equals = trimmed.find('=');
    if (trimmed.starts_with("[") && trimmed.ends_with("]"))
      section = std::string(trimmed.substr(1, trimmed.size() - 2)) + ".";
    else if (equals != std::string_view::npos) {
      std::string value(axonn::trimmed(trimmed.substr(equals + 1)));
      std::erase(value, '"');
      words[section + std::string(axonn::trimmed(trimmed.substr(0, equals)))] = value;
    }
  }
  return words;
}

ForeignWords words_of_json(const std::string& text) {
  const Json json = axonn::is_shallow_json(text) ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
  AXONN_CHECK(json.is_object(), kWhere, "the file is no JSON object: give one that DeepSpeed reads");
  ForeignWords words;
  add_words(words, "", json);
  return words;
}

int64_t number_of(const ForeignWords& words, const std::string& key, int64_t otherwise) {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : whole(found->second, "'" + key + "'");
}

std::string word_of(const ForeignWords& words, const std::string& key, const std::string& otherwise) {
  const auto found = words.find(key);
  return found == words.end() ? otherwise : found->second;
}

int64_t given_number(const ForeignWords& words, const std::string& key) {
  const std::string word = word_of(words, key, "auto");
  return word == "auto" || word == "-1" ? 0 : whole(word, "'" + key + "'");
}
