#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/tokenizer/files/file_text.hpp"

namespace axonn {

// UserError with the file, and the byte, unless it is a JSON object.
nlohmann::json parse_json(const FileText& file);

// A value in a JSON file, which must outlive this. A key whose value is null counts as missing.
// Every UserError names the file and the key.
class JsonPart {
 public:
  JsonPart(std::string name, const nlohmann::json& value) : name_(std::move(name)), value_(&value) {}

  const std::string& name() const { return name_; }
  const nlohmann::json& value() const { return *value_; }
  std::string shown() const;  // its text, cut when it is long

  bool has(std::string_view key) const;
  JsonPart at(std::string_view key) const;                 // UserError when it is missing
  std::vector<JsonPart> list(std::string_view key) const;  // UserError when it is missing
  std::string word(std::string_view key) const;            // UserError when it is missing
  std::string word_or(std::string_view key, std::string_view fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  int64_t whole() const;  // this value, a whole number
  double number() const;  // this value, any number

 private:
  std::string name_;
  const nlohmann::json* value_;
};

// UserError "FILE: 'pre_tokenizer' asks for WHAT; axonn's tokenizers have KNOWN".
[[noreturn]] void refuse(const JsonPart& part, std::string_view what, std::string_view known);

}  // namespace axonn
