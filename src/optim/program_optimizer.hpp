#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/optim/make_optimizer.hpp"
#include "axonn/overlap/execute/update_executor.hpp"

namespace axonn {

// The program of these settings for an arena of these types, as it runs.
coconet::UpdateProgram running_program(const OptimizerSettings& settings, const ArenaTypes& types);

// An optimizer that is a program, on CPUs.
class ProgramOptimizer final : public Optimizer {
 public:
  ProgramOptimizer(const UpdatedNetwork& network, const OptimizerSettings& settings);

  void state_changed() override;
  bool keeps_gradients() const override { return !executor_->updates_with_sums(); }

 protected:
  double gradient_norm(double learning_rate, const UpdateOptions& options) override;
  void update(double learning_rate, const UpdateOptions& options, double norm) override;
  std::vector<OptimizerState> tensors() const override;
  void exchange_average() override;

 private:
  void set(std::string_view number, double value);
  void set_numbers(double learning_rate);
  void prepare_update(double learning_rate) override;

  OptimizerSettings settings_;
  coconet::UpdateProgram program_;
  std::unique_ptr<UpdateExecutor> executor_;
  double learning_rate_ = 0;  // this update's
};

}  // namespace axonn
