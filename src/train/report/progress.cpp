#include "train/report/progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string_view>
#include <vector>

#include <sys/ioctl.h>
#include <unistd.h>

#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr int kLeastBarColumns = 8;
constexpr int kMostBarColumns = 40;
constexpr double kSecondsBetweenRedraws = 0.1;

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

}  // namespace

std::string progress_line(const ProgressState& state, int columns) {
  const std::string steps = std::to_string(state.steps), step = std::to_string(state.step);
  const std::string head =
      "step " + std::string(steps.size() - std::min(steps.size(), step.size()), ' ') + step + "/" + steps;
  std::vector<std::string> fields = {"loss " + fixed(state.loss, 2)};
  if (state.validation_loss) fields.push_back("val " + fixed(*state.validation_loss, 2));
  if (state.bits_per_byte) fields.push_back("bpb " + fixed(*state.bits_per_byte, 2));
  fields.push_back(with_unit(state.tokens_per_second) + " " + std::string(state.terms) + "/s");
  const size_t needed = fields.size();
  if (state.utilisation) fields.push_back(percent(*state.utilisation) + " of GEMM");
  if (state.hidden) fields.push_back("comm hidden " + percent(*state.hidden));
  if (state.tokens > 0) fields.push_back(with_unit(static_cast<double>(state.tokens)) + " " + std::string(state.terms));
  if (state.epoch) fields.push_back("epoch " + fixed(*state.epoch, 2));
  const std::string left = "  " + duration_text(state.seconds_left) + " left";

  const auto width = [&] {
    size_t sum = head.size() + left.size();
    for (const std::string& field : fields) sum += 2 + field.size();
    return static_cast<int>(sum);
  };
  while (columns > 0 && width() > columns && fields.size() > needed) fields.pop_back();
  std::string tail;
  for (const std::string& field : fields) tail += "  " + field;
  tail += left;
  const double share = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  const int room = columns - width() - 1;
  if (room >= kLeastBarColumns) return head + " " + bar(share, std::min(room, kMostBarColumns)) + tail;
  return columns > 0 ? (head + tail).substr(0, static_cast<size_t>(columns)) : head + tail;
}

Progress::Options Progress::for_descriptor(int descriptor, int64_t steps, int64_t first_step, int64_t log_every) {
  const bool terminal = ::isatty(descriptor) == 1;
  return {.steps = steps,
          .first_step = first_step,
          .log_every = log_every,
          .terminal = terminal,
          .columns = 80,
          .descriptor = descriptor};
}

Progress::Progress(std::ostream& out, Options options) : out_(out), options_(options) {}

Progress::~Progress() { finish(); }

void Progress::update(ProgressState state, double elapsed_seconds) {
  state.steps = options_.steps;
  const auto done = static_cast<double>(std::max<int64_t>(1, state.step - options_.first_step));
  state.seconds_left = elapsed_seconds / done * static_cast<double>(std::max<int64_t>(0, options_.steps - state.step));
  if (options_.most_seconds > 0)
    state.seconds_left = std::clamp(options_.most_seconds - elapsed_seconds, 0.0, state.seconds_left);
  const bool last = state.step == options_.steps;
  if (!options_.terminal) {
    if (last || (options_.log_every > 0 && state.step % options_.log_every == 0))
      out_ << progress_line(state, 0) << std::endl;
    return;
  }
  if (drawn_ && !last && elapsed_seconds - last_drawn_seconds_ < kSecondsBetweenRedraws) return;
  last_drawn_seconds_ = elapsed_seconds;
  draw(state);
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
