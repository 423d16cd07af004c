// The command-line half of OptionTable.
#include <algorithm>

#include <CLI/CLI.hpp>

#include "axonn/config/command_line.hpp"
#include "axonn/core/error.hpp"
#include "config/option_field.hpp"

namespace axonn {
namespace {

using Takes = OptionField::Takes;

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// CLI11 writes "--tied,--no-tied{false}".
struct HelpFormatter : CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const auto at = name.find("{false}"); at != std::string::npos)
      name.erase(at, std::string_view("{false}").size());
    return name;
  }
};

}  // namespace

bool OptionTable::Option::is_in(std::span<const std::string_view> names) const {
  return std::ranges::any_of(names,
                             [this](std::string_view name) { return name == section || name == section + "." + key; });
}

void OptionTable::for_experts(const std::vector<std::string_view>& keys) {
  for (const std::string_view key : keys) {
    const auto named = [key](const Option& option) { return option.is_in({{key}}); };
    AXONN_ASSERT(std::ranges::any_of(options_, named), "no option '", key, "'");
    for (Option& option : options_) option.for_experts = option.for_experts || named(option);
  }
}

void OptionTable::add_flags(CLI::App& app, const std::vector<std::string_view>& sections) {
  for (Option& option : options_) {
    const bool wanted = sections.empty() || option.is_in(sections);
    if (wanted && &find(option.key) == &option) add_flag(app, option);
  }
  app.formatter(std::make_shared<HelpFormatter>());
}

std::vector<OptionTable::Option*> OptionTable::sharing(const Option& option) {
  std::vector<Option*> all;
  for (Option& other : options_)
    if (other.key == option.key) all.push_back(&other);
  return all;
}

// "features of the residual stream (default: 384)"
void OptionTable::add_flag(CLI::App& app, Option& option) {
  const std::string flag = flag_of(option.key), former = option.former.empty() ? "" : "," + flag_of(option.former),
                    fallback = option.field->text();
  const bool names_default = !fallback.empty() && use_ != Use::flags;
  const std::string help = option.help + (names_default ? " (default: " + fallback + ")" : "");
  const auto all = sharing(option);
  const auto set = [all, flag](const CLI::results_t& words) {
    for (Option* each : all) {
      each->field->read(words, flag);
      each->source = Source::flag;
    }
    return true;
  };
  CLI::Option* added = nullptr;
  if (const Takes takes = option.field->takes(); takes == Takes::none) {
    const auto count = [set](int64_t yes) { set({yes > 0 ? "true" : "false"}); };
    AXONN_ASSERT(former.empty(), flag, " is a switch: its former name is not read yet");
    added = app.add_flag_function(flag + ",!--no-" + flag.substr(2), count, help);
  } else {
    added = app.add_option(flag + former, set, help)->type_name(option.field->type());
    if (takes == Takes::one)
      added->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    else
      added->expected(takes == Takes::any ? 0 : 1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  }
  // The section in files, or a group of the help.
  const std::string group = all.size() > 1       ? "network"
                            : use_ == Use::flags ? option.section
                                                 : "[" + option.section + "]";
  added->group(option.for_experts ? expert_group(group) : group);
}

namespace {

// In single quotes where a shell would take it apart.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_./,:=+-@%";
  const auto plain = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kPlain.find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string OptionTable::given_flags(const std::vector<std::string_view>& sections) const {
  std::string flags;
  for (const Option& option : options_) {
    const bool wanted = sections.empty() || std::ranges::find(sections, option.section) != sections.end();
    if (option.source != Source::flag || !wanted || &find(option.key) != &option) continue;
    const std::string flag = flag_of(option.key);
    if (option.field->takes() == Takes::none)
      flags += " " + (option.field->json() == true ? flag : "--no-" + flag.substr(2));
    else
      flags += " " + flag + " " + shell_word(option.field->text());
  }
  return flags;
}

}  // namespace axonn
