#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace axonn {

// A TOML file with its name for errors: "machines/mine.toml:12: ...".
struct TomlFile {
  toml::table table;
  std::string name;
};
std::string read_toml_text(const std::filesystem::path& path);  // UserError: cannot be read
TomlFile read_toml_file(const std::filesystem::path& path);     // UserError: the same, or wrong TOML
TomlFile parse_toml(std::string_view text, std::string_view name);

// One table of a file, read key by key. Every complaint names file, line and key.
class TomlSection {
 public:
  TomlSection(const TomlFile& file, const toml::table& table, std::string name);

  // The smallest allowed value is `least`; with `above` the value must be greater than it.
  double number(std::string_view key, double least, bool above = true);
  double number_or(std::string_view key, double fallback, double least, bool above = true);
  int64_t integer(std::string_view key, int64_t least, int64_t most = std::numeric_limits<int64_t>::max());
  std::optional<int64_t> find_integer(std::string_view key, int64_t least,
                                      int64_t most = std::numeric_limits<int64_t>::max());
  std::optional<std::string> find_text(std::string_view key);
  bool has(std::string_view key) const { return table_.contains(key); }

  // UserError for keys that were never read. It names the nearest of the keys that were, or of
  // `also`.
  void refuse_unknown_keys(const std::vector<std::string>& also = {}) const;

 private:
  const toml::node* find(std::string_view key);
  std::string place(std::string_view key, const toml::node& node) const;
  [[noreturn]] void missing(std::string_view key) const;

  const TomlFile& file_;
  const toml::table& table_;
  std::string name_;
  std::vector<std::string> asked_;
};

std::string place_of(const TomlFile& file, const toml::node& node);  // "mine.toml:12"

}  // namespace axonn
