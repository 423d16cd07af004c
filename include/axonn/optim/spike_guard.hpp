#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/core/names.hpp"

namespace axonn {

// The fate of a step whose loss or gradient norm is a spike.
enum class OnSpike : uint8_t {
  off,      // it is a step like any other
  skip,     // its update is not made, and training goes on with the next batch
  rollback  // training goes back to the newest checkpoint, and on from there with the batch after the spike's
};

template <>
struct Names<OnSpike> {
  static constexpr Named<OnSpike> all[] = {
      {"off", OnSpike::off}, {"skip", OnSpike::skip}, {"rollback", OnSpike::rollback}};
};

struct SpikeOptions {
  OnSpike action = OnSpike::off;
  double factor = 4;    // a spike is more than so many times the median
  int64_t window = 50;  // good steps in the median; before there are so many, nothing is a spike
};

// Tells spikes from good steps by the running medians of loss and gradient norm, for losses that
// are not negative. Equal on every rank that is given equal numbers.
class SpikeGuard {
 public:
  struct State {                 // saved in checkpoints
    std::vector<double> losses;  // newest good steps, the oldest first
    std::vector<double> norms;   // gradient norms of the same steps
    int64_t spikes = 0;          // since the run began
    int64_t skipped = 0;         // updates that were not made; the optimizer has not counted them
    int64_t in_a_row = 0;        // newest skipped steps without a good one
    int64_t left_out = 0;        // batches that rollbacks have passed by: step n takes batch n + left_out
    bool operator==(const State&) const = default;
  };

  static constexpr int64_t kMostInARow = 10;  // skipped steps, or rollbacks to one checkpoint

  // UserError for a factor of 1 or less, or a window below 2.
  explicit SpikeGuard(SpikeOptions options);

  OnSpike action() const { return options_.action; }
  // A number that is not finite is a spike too.
  bool is_spike(double loss, double norm) const;
  // "loss 9.1 (median 2.2), gradient norm 14 (median 0.8)"
  std::string compared(double loss, double norm) const;

  void accept(double loss, double norm);  // a step whose update was made
  // False: too many in a row; the state is unchanged.
  [[nodiscard]] bool skip();
  // To the state of a checkpoint. Its next step takes batch number `next`.
  void roll_back(const State& state, int64_t step, int64_t next);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }
  // Whether a resumed run needs the state.
  bool matters() const { return options_.action != OnSpike::off || state_.skipped > 0 || state_.left_out > 0; }

 private:
  SpikeOptions options_;
  State state_;
};

}  // namespace axonn
