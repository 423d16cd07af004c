#pragma once

#include "axonn/model/decoder/model.hpp"
#include "axonn/train/task.hpp"
#include "axonn/train/verification.hpp"

namespace axonn {

// Next-token prediction on tokens that depend only on (seed, sample, position), for verification
// and measurements without data.
class SyntheticTokens : public TrainTask {
 public:
  SyntheticTokens(Decoder& model, uint64_t seed) : model_(model), seed_(seed) {}

  TaskWords words() const override { return {.samples = "sequences", .terms = "tokens", .short_terms = "tok"}; }
  int64_t tokens_per_sample() const override { return model_.config().shape.sequence; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;
  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override;  // tokens: (count, sequence + 1)
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override;
  std::optional<double> validate() override { return std::nullopt; }

 private:
  Decoder& model_;
  uint64_t seed_;
};

// For Verifier.
MakeNetwork decoder_on_synthetic_tokens(const DecoderConfig& config, uint64_t seed);

}  // namespace axonn
