// The command-line half of OptionTable.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "axonn/config/option_table.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

template <typename Number>
Number parse_number(const std::string& word, const std::string& flag, std::string_view need) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  AXONN_CHECK(error == std::errc() && end == word.data() + word.size(), "train.options", flag, " must be ", need, ", got '", word, "'");
  return value;
}

int64_t parse_integer(const std::string& word, const std::string& flag) {
  const bool suffixed = !word.empty() && std::string_view("kMG").find(word.back()) != std::string_view::npos;
  return suffixed ? parse_count(word, flag) : parse_number<int64_t>(word, flag, "a whole number");
}

double parse_finite(const std::string& word, const std::string& flag) {
  const auto value = parse_number<double>(word, flag, "a number");
  AXONN_CHECK(std::isfinite(value), "train.options", flag, " must be a finite number, got '", word, "'");
  return value;
}

std::string joined(const OptionTable::Strings& words, std::string_view separator) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : std::string(separator)) + word;
  return line;
}

struct DefaultText {
  std::string operator()(const std::string* value) const { return *value; }
  std::string operator()(const OptionTable::Strings* value) const { return joined(*value, " "); }
  std::string operator()(const OptionTable::Integers* value) const {
    OptionTable::Strings words;
    for (const int64_t number : *value) words.push_back(std::to_string(number));
    return joined(words, " ");
  }
  std::string operator()(const bool* value) const { return *value ? "yes" : "no"; }
  std::string operator()(const OptionTable::Enumeration& value) const { return value.get(); }
  template <typename Number>
  std::string operator()(const Number* value) const {
    return detail::concatenate(*value);
  }
};

struct TypeText {
  std::string operator()(const int64_t*) const { return "INT"; }
  std::string operator()(const int*) const { return "INT"; }
  std::string operator()(const double*) const { return "NUMBER"; }
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const OptionTable::Strings*) const { return "TEXT"; }
  std::string operator()(const OptionTable::Integers*) const { return "INT"; }
  std::string operator()(const std::string*) const { return "TEXT"; }
  std::string operator()(const OptionTable::Enumeration&) const { return "TEXT"; }
};

// "features of the residual stream, unit (default: 384)"
std::string help_line(const std::string& help, const std::string& unit, const std::string& fallback) {
  return help + (unit.empty() ? "" : ", " + unit) + (fallback.empty() ? "" : " (default: " + fallback + ")");
}

// CLI11 writes "--tied,--no-tied{false}".
struct HelpFormatter : CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const auto at = name.find("{false}"); at != std::string::npos) name.erase(at, std::string_view("{false}").size());
    return name;
  }
};

}  // namespace

void OptionTable::add_flags(CLI::App& app, const std::vector<std::string_view>& sections) {
  for (Option& option : options_) {
    const auto names_it = [&](std::string_view what) { return what == option.section || what == option.section + "." + option.key; };
    if (sections.size() != 0 && std::ranges::none_of(sections, names_it)) continue;
    const std::string flag = flag_of(option.key);
    const std::string help =
        help_line(option.help, option.allowed.empty() ? option.unit : joined(option.allowed, "|"), std::visit(DefaultText(), option.field));
    const CLI::callback_t callback = [this, &option](const CLI::results_t& words) {
      set_from_flag(option, words);
      return true;
    };
    CLI::Option* added = nullptr;
    if (std::holds_alternative<bool*>(option.field)) {
      const auto set = [this, &option](int64_t count) { set_from_flag(option, {count > 0 ? "true" : "false"}); };
      added = app.add_flag_function(flag + ",!--no-" + flag.substr(2), set, help);
    } else {
      added = app.add_option(flag, callback, help)->type_name(std::visit(TypeText(), option.field));
    }
    const bool numbers = std::holds_alternative<Integers*>(option.field);
    if (numbers || std::holds_alternative<Strings*>(option.field)) {
      added->expected(numbers ? 0 : 1, CLI::detail::expected_max_vector_size)->allow_extra_args();
    } else {
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    added->group("[" + option.section + "]");
  }
  app.formatter(std::make_shared<HelpFormatter>());
}

void OptionTable::set_from_flag(Option& option, const Strings& words) {
  const std::string flag = flag_of(option.key);
  const auto assign = [&](auto& field) {
    using T = std::decay_t<decltype(field)>;
    const std::string& word = words.back();
    if constexpr (std::is_same_v<T, int64_t*>) {
      *field = parse_integer(word, flag);
    } else if constexpr (std::is_same_v<T, int*>) {
      *field = parse_number<int>(word, flag, "a whole number");
    } else if constexpr (std::is_same_v<T, double*>) {
      *field = parse_finite(word, flag);
    } else if constexpr (std::is_same_v<T, bool*>) {
      *field = word == "true";
    } else if constexpr (std::is_same_v<T, Strings*>) {
      *field = words;
    } else if constexpr (std::is_same_v<T, Integers*>) {
      field->clear();
      for (const std::string& each : words)
        if (!each.empty()) field->push_back(parse_integer(each, flag));  // CLI11 gives one empty word for none
    } else {
      check_allowed(option, word, flag);
      if constexpr (std::is_same_v<T, std::string*>) {
        *field = word;
      } else {
        field.set(word);
      }
    }
  };
  std::visit(assign, option.field);
  option.source = Source::flag;
}

}  // namespace axonn
