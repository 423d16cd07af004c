#include "axonn/coconet/transform/program_file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/text.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.program_file";
constexpr std::string_view kSchedule = "schedule";

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// The name after the word `schedule`; nothing if the line does not begin with it.
std::optional<std::string_view> schedule_name(std::string_view line) {
  const std::string_view content = trimmed(line.substr(0, line.find('#')));
  if (!content.starts_with(kSchedule)) return std::nullopt;
  const std::string_view rest = content.substr(kSchedule.size());
  if (!rest.empty() && rest.front() != ' ' && rest.front() != '\t') return std::nullopt;
  return trimmed(rest);
}

std::string place(const std::string& file, int line, std::string_view schedule) {
  const std::string at = file.empty() ? "" : file + (line > 0 ? ":" + std::to_string(line) : "") + ": ";
  return detail::concatenate(at, "schedule ", schedule);
}

}  // namespace

Schedule ProgramFile::scheduled(std::string_view schedule) const {
  Schedule made(program);
  if (schedule == kPlainSchedule) return made;
  const auto found = std::ranges::find(schedules, schedule, &NamedSchedule::name);
  if (found == schedules.end()) {
    std::vector<std::string> names = {std::string(kPlainSchedule)};
    for (const NamedSchedule& one : schedules) names.push_back(one.name);
    std::string all;
    for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
    throw UserError(
        kWhere, detail::concatenate("the schedule of ", program.name(), " must be one of ", all, ", got '", schedule,
                                    "'", did_you_mean(schedule, std::span<const std::string>(names))));
  }
  int number = 0;
  for (const Transformation& transformation : found->log) {
    ++number;
    try {
      made.apply(transformation);
    } catch (const UserError& error) {
      const std::string at = place(file, transformation.line, schedule), number_of = std::to_string(number) + " of ";
      throw UserError(error.where(), at + ", transformation " + number_of + std::to_string(found->log.size()) + ": " +
                                         error.sentence());
    }
  }
  return made;
}

std::string ProgramFile::place_of(std::string_view schedule) const {
  const auto found = std::ranges::find(schedules, schedule, &NamedSchedule::name);
  return place(file, found == schedules.end() ? 0 : found->line, schedule);
}

ProgramFile parse_program_file(std::string_view text, std::string_view file) {
  auto [program, rest, line] = parse_program_and_rest(text, file);
  ProgramFile made{std::move(program), {}, std::string(file)};
  std::string_view body = rest;
  int body_line = line;
  const auto end_schedule = [&](std::string_view next) {
    if (made.schedules.empty()) return;
    const auto size = static_cast<size_t>(next.data() - body.data());
    made.schedules.back().log =
        parse_transformations(body.substr(0, size), file, body_line, made.schedules.back().name);
  };
  while (!rest.empty()) {
    const std::string_view before = rest;
    const auto name = schedule_name(take_line(rest));
    if (name) {
      end_schedule(before);
      const bool taken =
          *name == kPlainSchedule ||
          std::ranges::find(made.schedules, *name, &ProgramFile::NamedSchedule::name) != made.schedules.end();
      AXONN_CHECK(!name->empty() && !taken, kWhere, file, ":", line,
                  ": a schedule needs a name that no other one has, got '", *name, "'");
      made.schedules.push_back({std::string(*name), {}, line});
      body = rest;
      body_line = line + 1;
    }
    ++line;
  }
  end_schedule(std::string_view(text.data() + text.size(), 0));
  return made;
}

ProgramFile load_program_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in.good(), kWhere, "program ", path.string(), " cannot be read: ", why_not_read(path.native()));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_program_file(text, path.string());
}

std::string to_text(const ProgramFile& file) {
  std::string text = to_text(file.program);
  for (const auto& [name, log, line] : file.schedules)
    text.append("\n").append(kSchedule).append(" ").append(name).append("\n").append(to_text(log));
  return text;
}

}  // namespace axonn::coconet
