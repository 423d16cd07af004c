#include "axonn/tune/choice_file.hpp"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/text.hpp"
#include "tune/schedule_key.hpp"

namespace axonn::tune {
namespace {

constexpr const char* kWhere = "tune.choices";
constexpr std::string_view kTitle = "axonn choice 3";

std::string hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

// Everything but the machine.
std::string subject_of(const ChoiceKey& key) {
  std::string text = "program " + key.program.name() + " " + hash_of(canonical_text(key.program)) + "\nsizes";
  for (const auto& [name, value] : key.sizes) text += " " + name + "=" + std::to_string(value);
  return text + "\nranks " + std::to_string(key.ranks) + "\nbackend " + one_line(key.backend) + "\n";
}

// The rest of a text after a beginning that it must have.
bool skip(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Throws UserError for what is no choice.
Choice parse(std::string_view text, const ChoiceKey& key, const std::string& file) {
  const auto check = [&](bool holds, const char* what) { AXONN_CHECK(holds, kWhere, file, ": ", what); };
  Choice choice;
  check(skip(text, "seconds "), "no line of seconds");
  const std::string_view seconds = take_line(text);
  const auto end = std::from_chars(seconds.data(), seconds.data() + seconds.size(), choice.seconds);
  check(end.ec == std::errc() && end.ptr == seconds.data() + seconds.size(), "its seconds are no number");
  check(skip(text, "settings "), "no line of settings");
  choice.settings = coconet::parse_run_settings(take_line(text));
  check(skip(text, "schedule\n"), "no schedule");
  const size_t last = text.rfind("end ");
  check(last != std::string_view::npos, "its end is missing");
  choice.log = coconet::parse_transformations(text.substr(0, last), file);
  coconet::Schedule schedule(key.program);
  for (const coconet::Transformation& each : choice.log) schedule.apply(each);
  return choice;
}

}  // namespace

std::filesystem::path ChoiceFiles::path_of(const ChoiceKey& key) const {
  return folder_ / (key.program.name() + "-" + hash_of(subject_of(key)) + ".choice");
}

std::optional<Choice> ChoiceFiles::find(const ChoiceKey& key) const {
  const std::filesystem::path path = path_of(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  std::string_view text = all;
  const size_t last = std::min(all.rfind("end "), all.size());
  const bool whole = all.substr(last) == "end " + hash_of(text.substr(0, last)) + "\n";
  if (whole && !text.starts_with(std::string(kTitle) + "\n")) {
    log::info("the tuner's choice in ", path.string(), " is of another version of axonn; it is renewed");
    return {};
  }
  if (!whole || !skip(text, std::string(kTitle) + "\n" + subject_of(key) + "machine ")) {
    log::warn("the tuner's choice in ", path.string(), " is corrupt; it is renewed");
    return {};
  }
  if (const std::string_view machine = take_line(text); machine != one_line(key.machine)) {
    log::info("the tuner's choice in ", path.string(), " is of another machine, ", machine, "; it is renewed");
    return {};
  }
  try {
    return parse(text, key, path.string());
  } catch (const UserError& error) {
    log::warn("the tuner's choice in ", path.string(), " is corrupt (", error.sentence(), "); it is renewed");
    return {};
  }
}

void ChoiceFiles::save(const ChoiceKey& key, const Choice& choice) const {
  char seconds[40];
  std::snprintf(seconds, sizeof seconds, "%.9g", choice.seconds);
  std::string text = std::string(kTitle) + "\n" + subject_of(key) + "machine " + one_line(key.machine) + "\nseconds " +
                     seconds + "\nsettings " + to_string(choice.settings) + "\nschedule\n" + to_text(choice.log);
  text += "end " + hash_of(text) + "\n";
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::filesystem::path path = path_of(key), part = path.string() + ".part";
  std::ofstream(part, std::ios::binary) << text;
  std::filesystem::rename(part, path, error);
  AXONN_CHECK(!error, kWhere, "cannot write the tuner's choice to ", path.string(), ": ", error.message(),
              "; name another folder");
}

}  // namespace axonn::tune
