#include "train/tensorboard/tensorboard.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "axonn/core/host_name.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "train/tensorboard/event_messages.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.", kSamples = "samples";

EventMoment moment_of(int64_t step) {
  const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
  return {.wall_time = time.count(), .step = step};
}

// The number in "events.out.tfevents.1764500000.n0417.4711"; 0 in other names.
int64_t number_in(const std::string& name) {
  int64_t number = 0;
  if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  return number;
}

// A name after all others there: files are read in the order of their names, and the clocks of two
// hosts may differ.
fs::path new_file(const fs::path& folder) {
  fs::create_directories(folder);
  auto number = static_cast<int64_t>(moment_of(0).wall_time);
  for (const auto& entry : fs::directory_iterator(folder))
    number = std::max(number, number_in(entry.path().filename().string()) + 1);
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", static_cast<long long>(number));
  return folder / (std::string(kPrefix) + digits + "." + host_name() + "." + std::to_string(::getpid()));
}

// "seconds.step" is the tag seconds/step: TensorBoard groups tags by what is before the slash.
std::string tag_of(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

bool is_detail(const std::string& name) {
  return name == "step" || name.starts_with("communication.") || name.starts_with("linear_products.");
}

// Markdown that shows the lines as they are.
std::string preformatted(const std::string& text) {
  std::istringstream lines(printable(text));
  std::string markdown;
  for (std::string line; std::getline(lines, line);) markdown += "    " + line + "\n";
  return markdown;
}

// Earlier events of the next step and of later ones do not count any more.
void begin_after(int64_t step, RecordFile& file) {
  file.add(start_event(moment_of(step + 1)));
  file.flush();
}

}  // namespace

TensorBoard::TensorBoard(const fs::path& run_directory, int64_t first_step)
    : file_(std::in_place, new_file(run_directory / "tb")) {
  file_->add(version_event(moment_of(0)));
  begin_after(first_step, *file_);
}

template <typename Write>
void TensorBoard::try_to(const Write& write) {
  if (!file_) return;
  try {
    write(*file_);
  } catch (const std::exception& error) {
    log::warn("the files for TensorBoard are not up to date any more, and the run goes on without them: ",
              sentence_of(error));
    file_.reset();
  }
}

void TensorBoard::add(int64_t step, const NamedNumbers& metrics) {
  NamedNumbers curves;
  for (const auto& [name, number] : metrics)
    if (!is_detail(name)) curves.emplace_back(tag_of(name), number);
  try_to([&](RecordFile& file) { file.add(scalars_event(moment_of(step), curves)); });
}

void TensorBoard::add_sample(int64_t step, const fs::path& sample) {
  try_to([&](RecordFile& file) {
    const std::string content = disk::read_text(sample);
    file.add(sample.extension() == ".png" ? image_event(moment_of(step), kSamples, content)
                                          : text_event(moment_of(step), kSamples, preformatted(content)));
  });
}

void TensorBoard::go_back(int64_t step) {
  try_to([&](RecordFile& file) { begin_after(step, file); });
}

void TensorBoard::flush() {
  try_to([](RecordFile& file) { file.flush(); });
}

}  // namespace axonn
