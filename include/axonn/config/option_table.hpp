#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/config/codec.hpp"
#include "axonn/core/text.hpp"

namespace CLI {
class App;
}

namespace axonn {

class OptionField;

// Limits of a whole number, and the meaning of its suffixes k, M and G.
struct Whole {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  Suffixes suffixes = Suffixes::decimal;
};

// One table binds every configuration key to a field of the program's configuration. It provides
// the command-line flags, reading and writing TOML, the JSON in checkpoints, and the help texts.
// Every field holds its default when it is added. It must outlive the table.
//
//   table.add("model", "hidden", config.hidden, "features of the residual stream");
//   table.add("model", "tied", config.tied, "the head shares the embedding");
//   table.add("run", "dtype", config.dtype, "type of the weights");
//
// In a file: [model] hidden = 384, tied = false, [run] dtype = "bf16".
// As flags: --hidden 384 --no-tied --dtype bf16.
//
// Precedence: default < checkpoint < file < flag, in whatever order they are read. Wrong input is a
// UserError.
class OptionTable {
 public:
  using Strings = std::vector<std::string>;
  using Integers = std::vector<int64_t>;
  enum class Source : uint8_t { fallback, checkpoint, file, flag };

  // A program with files and checkpoints, or with a command line only. With `flags`, sections are
  // only groups of the help.
  enum class Use : uint8_t { files_and_flags, flags };

  explicit OptionTable(Use use = Use::files_and_flags);
  ~OptionTable();
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // A key occurs only once in the whole table, because it is also the flag's name. In a table of
  // flags, several options may share a key: its flag then sets them all.
  void add(std::string_view section, std::string_view key, int64_t& field, std::string_view help, Whole whole = {});
  void add(std::string_view section, std::string_view key, int& field, std::string_view help, Whole whole = {});
  void add(std::string_view section, std::string_view key, double& field, std::string_view help);
  void add(std::string_view section, std::string_view key, bool& field, std::string_view help);
  void add(std::string_view section, std::string_view key, std::string& field, std::string_view help);
  void add(std::string_view section, std::string_view key, Strings& field, std::string_view help);
  void add(std::string_view section, std::string_view key, Integers& field, std::string_view help, Whole whole = {});

  // Any other type, or a list of it, through its Codec.
  template <HasCodec T>
  void add(std::string_view section, std::string_view key, T& field, std::string_view help) {
    add_text(section, key, bind_text(field), help);
  }
  template <HasCodec T>
  void add(std::string_view section, std::string_view key, std::vector<T>& field, std::string_view help) {
    add_texts(section, key, bind_texts(field), help);
  }

  // A value with its own functions to print and parse.
  void add_text(std::string_view section, std::string_view key, TextValue value, std::string_view help);

  // `key` was called `former` in an earlier version. Files, checkpoints and flags with the old name
  // are still read. Only `key` is written.
  void add_former(std::string_view key, std::string_view former);

  // A checkpoint without `key` was written when there was no choice: `value`, as in a flag.
  void add_absent(std::string_view key, std::string_view value);

  // Flags that only an expert needs: those of these sections ("train") and single keys
  // ("run.order"). --help leaves them out, --help-all has them.
  void for_experts(const std::vector<std::string_view>& keys);

  // Adds a flag for every key of these sections ("train") and for these single keys ("run.grid"),
  // or for all keys when none is named. The flags belong to the program or to a subcommand. The
  // help groups them by section. When a scalar is given twice, the last one counts. Lists are
  // written 1,2,2 or 1 2 2.
  void add_flags(CLI::App& app, const std::vector<std::string_view>& sections = {});

  // `name` is used in errors: "configs/my.toml:12: unknown key 'hiden' in [model]; did you mean
  // 'hidden'?". When sections ("model") or single keys ("diffusion.loss") are named, all others are
  // ignored.
  void read_toml_file(const std::filesystem::path& path, const std::vector<std::string_view>& sections = {});
  void read_toml(std::string_view text, std::string_view name, const std::vector<std::string_view>& sections = {});
  void read_json(std::string_view text, std::string_view name);  // the output of to_json(), from a checkpoint

  // The effective configuration; reading it back gives the same values, bit for bit.
  std::string to_toml() const;
  std::string to_json() const;

  // The given flags, of these sections or of all, as one text for a shell: " --hidden 384
  // --no-tied".
  std::string given_flags(const std::vector<std::string_view>& sections = {}) const;

  Source source(std::string_view key) const;                           // the one that set the key
  std::vector<std::string> keys(std::string_view section = {}) const;  // all keys when no section is named

  // The first of `keys` whose value differs from `json`, an output of to_json(). Both values are
  // written as in a flag.
  struct Difference {
    std::string key, mine, theirs;
  };
  std::optional<Difference> first_difference(std::string_view json, std::span<const std::string> keys) const;

 private:
  friend struct OptionReader;  // option_table_file.cpp
  struct Option {
    std::string section, key, help;
    std::unique_ptr<OptionField> field;
    Source source = Source::fallback;
    std::string former = {};  // its key in an earlier version
    std::string absent = {};  // its value in checkpoints that do not have it; empty: the default
    bool for_experts = false;

    bool is_in(std::span<const std::string_view> names) const;  // its section or single key is one of them
    bool is_called(std::string_view name) const { return name == key || (!former.empty() && name == former); }
  };

  const Option& find(std::string_view key) const;
  void add_texts(std::string_view section, std::string_view key, TextValues values, std::string_view help);
  void add_field(std::string_view section, std::string_view key, std::unique_ptr<OptionField> field,
                 std::string_view help);
  void add_flag(CLI::App& app, Option& option);
  std::vector<Option*> sharing(const Option& option);

  const Use use_;
  std::list<Option> options_;  // the keys of a section one after the other; flags hold pointers
};

}  // namespace axonn
