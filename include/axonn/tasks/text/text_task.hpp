#pragma once

#include "axonn/data/tokens/token_data.hpp"
#include "axonn/data/tokens/token_windows.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// Next-token prediction on text or files of tokens.
class TextTask : public TrainTask {
 public:
  // All arguments outlive the task. `validation_rows`: sequences per rank per forward pass while
  // validating. UserError if the vocabulary is greater than the model's, and for TokenWindows.
  TextTask(Context& context, Decoder& model, const TokenData& data, uint64_t seed, int64_t validation_rows);

  TaskWords words() const override { return {.samples = "sequences", .terms = "tokens", .short_terms = "tok"}; }
  int64_t tokens_per_sample() const override { return model_.config().shape.sequence; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;  // Narayanan et al.'s formula, AxoNN section VI-C
  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override;  // ids and targets: (2, count, sequence)
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override;
  std::optional<double> validate() override;
  std::string why_no_validation() const override;
  std::string_view host_work() const override { return model_.config().checkpoint_offload ? "activation-offload" : ""; }

 private:
  Context& context_;
  Decoder& model_;
  const TokenData& data_;
  TokenWindows windows_;
  int64_t validation_rows_;
};

}  // namespace axonn
