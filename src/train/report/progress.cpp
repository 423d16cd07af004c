#include "train/report/progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <string_view>
#include <vector>

#include <sys/ioctl.h>

#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr int kLeastBarColumns = 8;
constexpr int kMostBarColumns = 40;
constexpr double kSecondsBetweenRedraws = 0.1, kSecondsBetweenLines = 5;

std::string fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

std::string percent(double share) { return fixed(100 * share, 0) + "%"; }

// A bar of `columns` characters, filled in steps of 1/8 character.
std::string bar(double share, int columns) {
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns * 8));
  const int full = eighths / 8;
  const std::string_view part = kEighths[static_cast<size_t>(eighths % 8)];
  std::string text;
  for (int i = 0; i < full; ++i) text += "█";
  text += part;
  return text + std::string(static_cast<size_t>(columns - full - (part.empty() ? 0 : 1)), ' ');
}

int columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A part of the line. One with keep = 0 stays; of the others, the greatest keep goes first.
struct Part {
  std::string text;
  int keep;
};

using Parts = std::vector<Part>;

Parts parts_of(const ProgressState& state) {
  const std::string terms(state.terms);
  Parts parts = {{"loss " + fixed(state.loss, 2), 0}};
  if (state.validation_loss) parts.push_back({"val " + fixed(*state.validation_loss, 2), 0});
  if (state.best_loss) parts.push_back({"best " + fixed(*state.best_loss, 2), 2});
  if (state.bits_per_byte) parts.push_back({"bpb " + fixed(*state.bits_per_byte, 2), 4});
  parts.push_back({with_unit(state.tokens_per_second) + " " + terms + "/s", 0});
  if (state.tokens > 0) parts.push_back({with_unit(static_cast<double>(state.tokens)) + " " + terms, 3});
  if (state.epoch) parts.push_back({"epoch " + fixed(*state.epoch, 2), 7});
  if (state.utilisation) parts.push_back({percent(*state.utilisation) + " of GEMM", 5});
  if (state.hidden) parts.push_back({"comm hidden " + percent(*state.hidden), 6});
  parts.push_back({duration_text(state.seconds_left) + " left", 0});
  if (!state.end.empty()) parts.push_back({"ends " + state.end, 1});
  return parts;
}

std::string text_of(const Parts& parts) {
  std::string text;
  for (const Part& part : parts) text += "  " + part.text;
  return text;
}

// The text of the parts for which there is room, and of those that stay.
std::string fitting(Parts parts, int columns) {
  std::string text = text_of(parts);
  while (std::ssize(text) > columns) {
    const auto next = std::ranges::max_element(parts, {}, &Part::keep);
    if (next->keep == 0) break;
    parts.erase(next);
    text = text_of(parts);
  }
  return text;
}

}  // namespace

std::string progress_line(const ProgressState& state, int columns) {
  const std::string steps = std::to_string(state.steps), step = std::to_string(state.step);
  const std::string head =
      "step " + std::string(steps.size() - std::min(steps.size(), step.size()), ' ') + step + "/" + steps;
  if (columns <= 0) return head + text_of(parts_of(state));
  const int beside = columns - static_cast<int>(head.size());
  const std::string tail = fitting(parts_of(state), beside - 1 - kLeastBarColumns);
  const int room = beside - 1 - static_cast<int>(tail.size());
  if (room < kLeastBarColumns) return (head + tail).substr(0, static_cast<size_t>(columns));
  const double share = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  return head + " " + bar(share, std::min(room, kMostBarColumns)) + tail;
}

Progress::Progress(std::ostream& out, Options options) : out_(out), options_(options) {}

Progress::~Progress() { finish(); }

void Progress::estimate(ProgressState& state, double elapsed_seconds) const {
  state.steps = options_.steps;
  const auto done = static_cast<double>(std::max<int64_t>(1, state.step - options_.first_step));
  state.seconds_left = elapsed_seconds / done * static_cast<double>(std::max<int64_t>(0, options_.steps - state.step));
  if (options_.most_seconds > 0)
    state.seconds_left = std::clamp(options_.most_seconds - elapsed_seconds, 0.0, state.seconds_left);
  const std::time_t now = std::time(nullptr);
  state.end = state.step == options_.steps ? "" : clock_text(now + std::lround(state.seconds_left), now);
}

bool Progress::due(int64_t step, double elapsed_seconds) const {
  if (step == options_.steps) return true;
  if (options_.terminal) return !drawn_ || elapsed_seconds - last_seconds_ >= kSecondsBetweenRedraws;
  if (options_.log_every > 0) return step % options_.log_every == 0;
  return elapsed_seconds - last_seconds_ >= kSecondsBetweenLines;
}

void Progress::update(ProgressState state, double elapsed_seconds) {
  if (!due(state.step, elapsed_seconds)) return;
  last_seconds_ = elapsed_seconds;
  estimate(state, elapsed_seconds);
  if (options_.terminal)
    draw(state);
  else
    out_ << progress_line(state, 0) << std::endl;
}

void Progress::draw(const ProgressState& state) {
  constexpr std::string_view kEraseToEnd = "\x1b[K";
  const int columns = options_.descriptor >= 0 ? columns_of(options_.descriptor) : options_.columns;
  out_ << '\r' << progress_line(state, columns - 1) << kEraseToEnd << std::flush;
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) out_ << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void Progress::finish() {
  if (drawn_) out_ << std::endl;
  drawn_ = false;
}

}  // namespace axonn
