#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace CLI {
class App;
}

namespace axonn {

// One table binds every configuration key to a field of the program's configuration. From it come the command-line flags, reading and
// writing TOML, the JSON kept in checkpoints, and the help texts. Every field holds its default when it is added and must outlive the
// table.
//
//   table.add("model", "hidden", config.hidden, "features of the residual stream");   // [model] hidden = 384   --hidden 384
//   table.add("model", "tied", config.tied, "the head shares the embedding");          // [model] tied = false   --no-tied
//   table.add("train", "micro_batch", config.micro_batch, "per forward", "sequences"); //                        --micro-batch 4
//
// Precedence: default < checkpoint < file < flag, in whatever order they are read. All of it throws UserError.
class OptionTable {
 public:
  using Strings = std::vector<std::string>;
  using Integers = std::vector<int64_t>;
  struct Enumeration {  // an enum through its names
    std::function<std::string()> get;
    std::function<void(std::string_view)> set;
  };
  using Field = std::variant<int64_t*, int*, double*, bool*, std::string*, Strings*, Integers*, Enumeration>;

  OptionTable() = default;
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // int64_t, int, double, bool, std::string, std::vector of std::string or int64_t. A key occurs once in the whole table, as it is the
  // flag's name too.
  template <typename T>
  void add(std::string_view section, std::string_view key, T& field, std::string_view help, std::string_view unit = "") {
    add_field(section, key, Field(&field), help, unit, {});
  }

  // A string that must be one of `allowed`.
  void add_choice(std::string_view section, std::string_view key, std::string& field, Strings allowed, std::string_view help);

  // An enum with the names of its values: table.add_choice("data", "tokenizer", config.tokenizer, {{"bytes", Kind::bytes}, ...}, "help").
  template <typename Enum>
  void add_choice(std::string_view section, std::string_view key, Enum& field, std::vector<std::pair<std::string, Enum>> names,
                  std::string_view help);

  // A flag for every key of these sections ("train") and these single keys ("run.grid"), for all when none is named, to the program or to a
  // subcommand; the help groups them by section. int64_t flags also take 64k, 4M, 1G (powers of 1024). A scalar that is given twice holds
  // the last one.
  void add_flags(CLI::App& app, const std::vector<std::string_view>& sections = {});

  // `name` stands in errors: "configs/my.toml:12: unknown key 'hiden' in [model]; did you mean 'hidden'?"
  void read_toml_file(const std::filesystem::path& path);
  void read_toml(std::string_view text, std::string_view name);
  void read_json(std::string_view text, std::string_view name);  // what to_json() wrote, from a checkpoint

  // The effective configuration; reading it back gives the same values, bit for bit.
  std::string to_toml() const;
  std::string to_json() const;

  enum class Source : uint8_t { fallback, checkpoint, file, flag };
  Source source(std::string_view key) const;  // who set the key

  // The first of `keys` whose value is another than in `json`, which to_json() wrote; both as a flag would say them.
  struct Difference {
    std::string key, mine, theirs;
  };
  std::optional<Difference> first_difference(std::string_view json, std::span<const std::string_view> keys) const;

 private:
  friend struct OptionReader;  // options_file.cpp
  struct Option {
    std::string section, key, help, unit;
    Field field;
    Strings allowed;
    Source source = Source::fallback;
  };

  const Option& find(std::string_view key) const;
  void add_field(std::string_view section, std::string_view key, Field field, std::string_view help, std::string_view unit,
                 Strings allowed);
  void set_from_flag(Option& option, const Strings& words);
  void check_allowed(const Option& option, std::string_view value, std::string_view place) const;

  std::list<Option> options_;  // the keys of a section one after the other; flags hold pointers
};

template <typename Enum>
void OptionTable::add_choice(std::string_view section, std::string_view key, Enum& field, std::vector<std::pair<std::string, Enum>> names,
                             std::string_view help) {
  Strings allowed;
  for (const auto& [name, value] : names) allowed.push_back(name);
  Enumeration enumeration;
  enumeration.get = [&field, names]() -> std::string {
    for (const auto& [name, value] : names)
      if (value == field) return name;
    return "?";
  };
  enumeration.set = [&field, names](std::string_view text) {
    for (const auto& [name, value] : names)
      if (name == text) field = value;
  };
  add_field(section, key, std::move(enumeration), help, "", std::move(allowed));
}

}  // namespace axonn
