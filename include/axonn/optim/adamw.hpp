#pragma once

#include <string>
#include <utility>
#include <vector>

#include "axonn/optim/optimizer.hpp"

namespace axonn {

struct AdamWOptions {
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // only matrices; vectors are never decayed
};

// Loshchilov and Hutter's AdamW through LibTorch's fused kernel.
class AdamW : public Optimizer {
 public:
  AdamW(Context& context, const Parameters& parameters, AdamWOptions options = {});
  void set_steps_taken(int64_t steps) override;

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override {
    return {{"adam.m", mean_}, {"adam.v", square_}};
  }
  void update(double learning_rate, double gradient_factor) override;

 private:
  AdamWOptions options_;
  at::Tensor mean_;
  at::Tensor square_;
  std::vector<at::Tensor> step_counts_;  // one per section, as the kernel needs them
};

}  // namespace axonn
