#pragma once

#include <map>
#include <string>
#include <vector>

#include "axonn/layers/loss.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/checkpoint_tensors.hpp"

namespace axonn::test {

// A small GPT in training, whose parameters fill several owners' blocks.
class OptimizerTraining {
 public:
  OptimizerTraining(const GridShape& grid, at::ScalarType dtype, const OptimizerSettings& settings);

  // `most_norm`: 0 does not clip, which also programs without `scale` can do.
  void step(int64_t number, double most_norm = 0.5);
  // All of this rank's gradients after a step whose schedule keeps them.
  const at::Tensor& summed_gradients() const { return parameters_.arena().gradients(); }
  // This rank's own part of every kind of state, and all weights, by name.
  std::map<std::string, at::Tensor> own_parts() const;
  std::vector<CheckpointTensor> tensors() const { return checkpoint_tensors(parameters_, optimizer_.get()); }

  Context& context() { return context_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Parameters& parameters() const { return parameters_; }
  const std::vector<double>& norms() const { return norms_; }    // gradients', per step
  const std::vector<double>& losses() const { return losses_; }  // this rank's micro-batches'

 private:
  Context context_;
  Decoder model_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  double scale_;
  std::vector<double> norms_, losses_;
};

}  // namespace axonn::test
