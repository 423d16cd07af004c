#include "axonn/config/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr std::string_view kForExperts = " (for experts)";

bool is_for_experts(const CLI::Option* option) { return option->get_group().ends_with(kForExperts); }

bool has_expert_flags(CLI::App& app) {
  return std::ranges::any_of(app.get_options(), is_for_experts) ||
         std::ranges::any_of(app.get_subcommands({}), [](CLI::App* sub) { return has_expert_flags(*sub); });
}

void add_help_all(CLI::App& app) {
  app.set_help_all_flag("--help-all", "Print this help message with the flags for experts and exit");
  for (CLI::App* sub : app.get_subcommands({})) add_help_all(*sub);
}

// CLI11 leaves out options without a group.
std::string help_of(CLI::App& app, const std::string& name, bool for_experts) {
  std::vector<std::pair<CLI::Option*, std::string>> marked;
  for (CLI::Option* option : app.get_options()) {
    if (!is_for_experts(option)) continue;
    const std::string& group = marked.emplace_back(option, option->get_group()).second;
    option->group(for_experts ? group.substr(0, group.size() - kForExperts.size()) : "");
  }
  std::string text = app.help(name);
  for (const auto& [option, group] : marked) option->group(group);
  return text;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The program and the subcommands that the command line chose, the innermost last.
std::vector<CLI::App*> chosen(CLI::App& app) {
  std::vector<CLI::App*> apps = {&app};
  for (CLI::App* sub : app.get_subcommands()) {
    const auto inner = chosen(*sub);
    apps.insert(apps.end(), inner.begin(), inner.end());
  }
  return apps;
}

[[noreturn]] void refuse_extra(CLI::App& app) {
  std::vector<std::string> commands;
  CLI::App& innermost = *chosen(app).back();
  const auto flags = flags_of(innermost);
  for (const CLI::App* sub : innermost.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(sub->get_name());
  const auto extras = app.remaining(true);
  const auto first_flag = std::ranges::find_if(extras, [](const std::string& word) { return word.starts_with('-'); });
  if (first_flag == extras.end()) {
    throw UserError("config.command_line", detail::concatenate("unexpected argument '", extras.front(), "'",
                                                               did_you_mean(extras.front(), commands)));
  }
  const std::string flag = first_flag->substr(0, first_flag->find('='));
  throw UserError("config.command_line", detail::concatenate("unknown flag '", flag, "'", did_you_mean(flag, flags)));
}

}  // namespace

std::function<std::string(const std::string&)> whole_number(int64_t least, int64_t most) {
  return [least, most](const std::string& text) -> std::string {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && value >= least && value <= most) return "";
    return detail::concatenate("must be a whole number from ", least, " to ", most, ", got '", text, "'");
  };
}

std::string expert_group(std::string_view group) { return std::string(group) + std::string(kForExperts); }

std::optional<std::string> parse_command_line(CLI::App& app, std::span<const char* const> arguments) {
  if (has_expert_flags(app)) add_help_all(app);
  const auto help = [&app](bool for_experts) {
    CLI::App& innermost = *chosen(app).back();
    return help_of(innermost, &innermost == &app ? "" : app.get_name(), for_experts);
  };
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return help(/*for_experts=*/false);
  } catch (const CLI::CallForAllHelp&) {
    return help(/*for_experts=*/true);
  } catch (const CLI::CallForVersion& call) {
    return std::string(call.what()) + "\n";
  } catch (const CLI::ExtrasError&) {
    refuse_extra(app);
  } catch (const CLI::ParseError& error) {
    throw UserError("config.command_line", error.what());
  }
}

int run_subcommand(CLI::App& app, std::span<const char* const> arguments, const std::vector<Subcommand>& commands,
                   const std::function<int()>& otherwise) {
  if (const auto text = parse_command_line(app, arguments)) {
    std::printf("%s", text->c_str());
    return 0;
  }
  for (const Subcommand& command : commands)
    if (command.app->parsed()) return command.run();
  AXONN_ASSERT(otherwise, "a command line without a subcommand");
  return otherwise();
}

}  // namespace axonn
