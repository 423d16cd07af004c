#pragma once

#include <string>
#include <utility>
#include <vector>

#include "axonn/optim/make_optimizer.hpp"

namespace axonn {

// An optimizer of LibTorch's kernels, for devices on which no programs run yet. Every replica has
// whole buffers.
class DeviceOptimizer : public Optimizer {
 public:
  DeviceOptimizer(Context& context, const Parameters& parameters, const OptimizerSettings& settings);
  void state_changed() override;

 protected:
  // One contiguous section of the arena whose elements are decayed alike.
  struct Section {
    at::Tensor weights;
    at::Tensor gradients;
    Range range;
    bool decay = false;
  };
  const std::vector<Section>& sections() const { return sections_; }
  const OptimizerSettings& settings() const { return settings_; }
  virtual std::vector<std::pair<std::string, at::Tensor>> moments() const = 0;
  virtual void update_weights(double learning_rate, double gradient_factor) = 0;
  // The same for gradients / divisor (undefined: 1), in the weights' type. Nothing changes if
  // `refused`, in fp32, is 1. `staged`: staged_numbers() on the device, in the place of the
  // learning rate and steps_taken(); undefined: none. Returns whether it has also rounded the
  // weights for the network.
  virtual bool update_weights_ahead(double /*learning_rate*/, const at::Tensor& /*divisor*/,
                                    const at::Tensor& /*refused*/, const at::Tensor& /*staged*/) {
    return false;
  }
  // All of the rule that changes from one update to the next: of update steps_taken().
  virtual std::vector<float> staged_numbers(double /*learning_rate*/) const { return {}; }

 private:
  double gradient_norm(double learning_rate, const UpdateOptions& options) final;
  void update(double learning_rate, const UpdateOptions& options, double norm) final;
  at::Tensor update_ahead(double learning_rate, const UpdateOptions& options) final;
  void stage_update(double learning_rate) final;
  void average_ahead(bool staged);
  at::Tensor squares(const at::Tensor& poison);
  std::vector<OptimizerState> tensors() const final;
  void exchange_average() final;

  OptimizerSettings settings_;
  at::Tensor wide_gradients_;  // in the master weights' type
  std::vector<Section> sections_;
  std::vector<Range> norm_ranges_;  // arena ranges that this rank counts in the norm
  at::Tensor average_;              // undefined: none
  at::Tensor refused_, one_;        // fp32, on the device; refused_ is 1 after a step that was refused
  at::Tensor staged_;               // fp32, on the device: the average's rate, then staged_numbers()
};

}  // namespace axonn
