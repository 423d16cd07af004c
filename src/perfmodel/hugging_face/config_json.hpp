#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace axonn {

// Hugging Face's config.json. Every getter throws a UserError with the file, the key and the value
// when a value is not what it must be. A key whose value is null counts as missing.
class ConfigJson {
 public:
  explicit ConfigJson(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  std::string model_type() const;  // UserError when it is missing

  int64_t size(std::string_view key) const;  // a whole number from 1; UserError when it is missing
  int64_t size_or(std::string_view key, int64_t fallback) const;
  int64_t count_or(std::string_view key, int64_t fallback) const;  // a whole number from 0
  // A window of attention in tokens; null and 0: none.
  int64_t window_or(std::string_view key, int64_t fallback) const;
  std::optional<int64_t> find_size(std::string_view key) const;
  bool flag_or(std::string_view key, bool fallback) const;
  int64_t length_or(std::string_view key, int64_t fallback) const;  // entries of a list
  // Of a list of words, how many are `word`.
  std::optional<int64_t> find_repeats(std::string_view key, std::string_view word) const;

  // UserError "NAME describes a network WHAT, and this planner knows ...".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  std::optional<int64_t> find_whole(std::string_view key, int64_t least) const;

  std::string name_;
  nlohmann::json file_;
};

}  // namespace axonn
