#pragma once

#include <string>
#include <utility>
#include <vector>

#include "axonn/optim/optimizer.hpp"

namespace axonn {

struct SgdOptions {
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;
};

class Sgd : public Optimizer {
 public:
  Sgd(Context& context, const Parameters& parameters, SgdOptions options = {});

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override;
  void update(double learning_rate, double gradient_factor) override;

 private:
  SgdOptions options_;
  at::Tensor velocity_;  // undefined without momentum
};

}  // namespace axonn
