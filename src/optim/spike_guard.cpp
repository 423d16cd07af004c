#include "axonn/optim/spike_guard.hpp"

#include <cmath>

#include "axonn/core/error.hpp"
#include "axonn/core/median.hpp"

namespace axonn {
namespace {

// Not so only if it is a number up to the limit.
bool exceeds(double value, double limit) { return !(value <= limit) || !std::isfinite(value); }

void add(std::vector<double>& values, double value, int64_t most) {
  values.push_back(value);
  if (std::ssize(values) > most) values.erase(values.begin(), values.end() - most);
}

}  // namespace

SpikeGuard::SpikeGuard(SpikeOptions options) : options_(options) {
  AXONN_CHECK(std::isfinite(options.factor) && options.factor > 1, "optim.spike_guard",
              "spike_factor must be more than 1, got ", options.factor);
  AXONN_CHECK(options.window >= 2, "optim.spike_guard", "spike_window must be at least 2, got ", options.window);
}

bool SpikeGuard::is_spike(double loss, double norm) const {
  if (options_.action == OnSpike::off || std::ssize(state_.losses) < options_.window) return false;
  return exceeds(loss, options_.factor * median(state_.losses)) ||
         exceeds(norm, options_.factor * median(state_.norms));
}

std::string SpikeGuard::compared(double loss, double norm) const {
  return detail::concatenate("loss ", loss, " (median ", median(state_.losses), "), gradient norm ", norm, " (median ",
                             median(state_.norms), ")");
}

void SpikeGuard::accept(double loss, double norm) {
  state_.in_a_row = 0;
  if (options_.action == OnSpike::off) return;
  add(state_.losses, loss, options_.window);
  add(state_.norms, norm, options_.window);
}

bool SpikeGuard::skip() {
  if (state_.in_a_row == kMostInARow) return false;
  ++state_.in_a_row;
  ++state_.skipped;
  ++state_.spikes;
  return true;
}

void SpikeGuard::roll_back(const State& state, int64_t step, int64_t next) {
  const int64_t spikes = state_.spikes + 1;
  state_ = state;
  state_.spikes = spikes;
  state_.left_out = next - step;
}

}  // namespace axonn
