#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/coconet/update/update_program.hpp>

#include "schedule_commands.hpp"

using namespace axonn;
using namespace axonn::coconet;

namespace {

// "N=1024" -> {"N", "1024"}
std::pair<std::string, std::string> key_and_value(const std::string& text, const char* flag) {
  const size_t equals = text.find('=');
  AXONN_CHECK(equals != std::string::npos && equals > 0, "axonn_schedule", flag, " must be NAME=VALUE, got '", text,
              "'");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// The trainer's schedules of an optimizer's program; none of another program.
std::vector<ProgramFile::NamedSchedule> trainer_schedules(const Program& program) {
  std::vector<ProgramFile::NamedSchedule> schedules;
  try {
    const UpdateProgram optimizer(program);
    for (const auto& [name, schedule] : Names<UpdateSchedule>::all)
      schedules.push_back({std::string(name), optimizer.scheduled(schedule).log()});
  } catch (const UserError&) {
    return {};  // it is none
  }
  return schedules;
}

}  // namespace

ProgramFile load_file(const ScheduleOptions& options) {
  ProgramFile file = load_program_file(options.file);
  if (file.schedules.empty()) file.schedules = trainer_schedules(file.program);
  return file;
}

std::vector<std::string> schedules_of(const ProgramFile& file, const ScheduleOptions& options) {
  if (!options.schedule.empty()) return {options.schedule};
  std::vector<std::string> names = {std::string(kPlainSchedule)};
  for (const ProgramFile::NamedSchedule& schedule : file.schedules) names.push_back(schedule.name);
  return names;
}

SizeValues sizes_of(const Program& program, const ScheduleOptions& options, int64_t otherwise) {
  const std::vector<std::string>& symbols = program.parts().sizes;
  SizeValues sizes;
  for (const std::string& text : options.sizes) {
    const auto [name, value] = key_and_value(text, "--size");
    AXONN_CHECK(std::ranges::count(symbols, name) > 0, "axonn_schedule", program.name(), " has no size '", name,
                "': use one of its sizes", did_you_mean(name, std::span<const std::string>(symbols)));
    AXONN_CHECK(!sizes.contains(name), "axonn_schedule", "--size ", name, " must be given only once, got ", sizes[name],
                " and ", value);
    sizes[name] = parse_count(value, "--size " + name, Suffixes::binary);
    AXONN_CHECK(sizes[name] >= 1, "axonn_schedule", "--size ", name, " must be at least 1, got ", value);
  }
  for (const std::string& symbol : symbols) {
    AXONN_CHECK(sizes.contains(symbol) || otherwise > 0, "axonn_schedule", "size ", symbol, " of ", program.name(),
                " needs a value: --size ", symbol, "=1024");
    sizes.emplace(symbol, otherwise);
  }
  return sizes;
}

std::map<std::string, double, std::less<>> scalars_of(const Program& program, const ScheduleOptions& options) {
  std::map<std::string, double, std::less<>> scalars;
  for (const Declaration& declaration : program.declarations())
    if (declaration.type.is_scalar()) scalars[declaration.name] = declaration.value.value_or(1);
  std::set<std::string> given;
  for (const std::string& text : options.scalars) {
    const auto [name, value] = key_and_value(text, "--set");
    AXONN_CHECK(given.insert(name).second, "axonn_schedule", "--set ", name, " must be given only once, got '", text,
                "' after another one");
    AXONN_CHECK(scalars.contains(name), "axonn_schedule", program.name(), " has no scalar '", name,
                "': use one of its scalars");
    double number = 0;
    const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
    AXONN_CHECK(end.ec == std::errc() && end.ptr == value.data() + value.size(), "axonn_schedule", "--set ", name,
                " must be a number, got '", value, "'");
    scalars[name] = number;
  }
  return scalars;
}
