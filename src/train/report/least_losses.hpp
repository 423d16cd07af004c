#pragma once

#include <cmath>
#include <optional>

namespace axonn {

// The least losses of a run's steps so far. Losses that are not finite do not count.
struct LeastLosses {
  std::optional<double> loss;             // nats per token, of a global batch
  std::optional<double> validation_loss;  // nats per token, of all held-out data

  void add(std::optional<double> step_loss, std::optional<double> held_out_loss) {
    lower(loss, step_loss);
    lower(validation_loss, held_out_loss);
  }
  // That of the held-out data; of the batches, as long as there was no validation.
  std::optional<double> best() const { return validation_loss ? validation_loss : loss; }

 private:
  static void lower(std::optional<double>& least, std::optional<double> value) {
    if (value && std::isfinite(*value) && (!least || *value < *least)) least = value;
  }
};

}  // namespace axonn
