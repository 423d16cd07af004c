#pragma once

#include "axonn/model/gpt/model.hpp"
#include "axonn/train/task.hpp"
#include "axonn/train/verification.hpp"

namespace axonn {

// Next-token prediction on tokens that depend only on (seed, sample, position), for verification
// and measurements without data.
class SyntheticTokens : public TrainTask {
 public:
  SyntheticTokens(Gpt& model, uint64_t seed) : model_(model), seed_(seed) {}

  TaskWords words() const override { return {.samples = "sequences", .terms = "tokens", .short_terms = "tok"}; }
  int64_t tokens_per_sample() const override { return model_.config().shape.sequence; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;
  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override;  // tokens: (count, sequence + 1)
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override;
  std::optional<double> validate() override { return std::nullopt; }

 private:
  Gpt& model_;
  uint64_t seed_;
};

// For Verifier.
MakeNetwork gpt_on_synthetic_tokens(const GptConfig& config, uint64_t seed);

}  // namespace axonn
