#pragma once

#include <cstdint>

namespace axonn {

struct LossScaleOptions {
  double initial = 65536;   // factor on the loss, for gradients narrower than fp32
  int64_t interval = 2000;  // steps without an overflow after which the scale doubles
  int64_t most_skips = 20;  // skipped steps in a row; the next one is an error
};

// Dynamic loss scaling (Micikevicius et al., Mixed Precision Training, section 3.2): after an
// overflow the step is skipped and the scale halved. After `interval` good steps it is doubled. It
// stays a power of two if the initial scale is one. Equal on every rank.
class LossScale {
 public:
  struct State {  // saved in checkpoints
    double value = 1;
    int64_t good = 0;     // steps since the last change
    int64_t skipped = 0;  // in total
    int64_t in_a_row = 0;
    bool operator==(const State&) const = default;
  };

  // UserError for a scale that is not positive and finite, or counts below 1.
  explicit LossScale(LossScaleOptions options);

  double value() const { return state_.value; }
  void applied();
  // False: too many in a row; the state is unchanged.
  [[nodiscard]] bool skipped();

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  LossScaleOptions options_;
  State state_;
};

}  // namespace axonn
