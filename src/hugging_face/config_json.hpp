#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"

namespace axonn {

// A network that can be planned, not trained.
class NotTrained : public UserError {
 public:
  using UserError::UserError;
};

// Hugging Face's config.json, or an object in it. Every getter throws a UserError with the file,
// the key and the value when a value is not what it must be. A key whose value is null counts as
// missing.
class ConfigJson {
 public:
  explicit ConfigJson(const std::filesystem::path& path);
  // `name`: in errors. UserError unless the text is an object.
  ConfigJson(std::string name, const std::string& text);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  std::string model_type() const;  // UserError when it is missing

  int64_t size(std::string_view key) const;  // a whole number from 1; UserError when it is missing
  int64_t size_or(std::string_view key, int64_t fallback) const;
  int64_t count_or(std::string_view key, int64_t fallback) const;  // a whole number from 0
  // A window of attention in tokens; null and 0: none.
  int64_t window_or(std::string_view key, int64_t fallback) const;
  std::optional<int64_t> find_size(std::string_view key) const;
  bool flag_or(std::string_view key, bool fallback) const;
  int64_t length_or(std::string_view key, int64_t fallback) const;  // entries of a list
  double positive_or(std::string_view key, double fallback) const;  // a number above 0
  double positive(std::string_view key) const;                      // UserError when it is missing
  std::string word_or(std::string_view key, std::string_view fallback) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<ConfigJson> find_object(std::string_view key) const;
  // One whole number from 0, or a list of them; empty when it is missing.
  std::vector<int64_t> counts(std::string_view key) const;
  // Of a list of words, the places of those that are `word`, from 0.
  std::optional<std::vector<int64_t>> find_places(std::string_view key, std::string_view word) const;

  // UserError "NAME describes a network WHAT, and this planner knows ...".
  [[noreturn]] void refuse(const std::string& what) const;
  // NotTrained "NAME describes a network WHAT, which cannot be trained yet".
  [[noreturn]] void refuse_to_train(const std::string& what) const;

 private:
  ConfigJson() = default;
  const nlohmann::json* find(std::string_view key) const;
  int64_t whole(const nlohmann::json& value, std::string_view key, int64_t least) const;
  std::optional<int64_t> find_whole(std::string_view key, int64_t least) const;

  std::string name_, text_;
  nlohmann::json file_;
};

}  // namespace axonn
