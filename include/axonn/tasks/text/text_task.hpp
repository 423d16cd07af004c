#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "axonn/data/tokens/token_data.hpp"
#include "axonn/data/tokens/token_windows.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/tasks/text/text_samples.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// Next-token prediction on text or files of tokens.
class TextTask : public TrainTask {
 public:
  // All arguments outlive the task. `validation_rows`: sequences per rank per forward pass while
  // validating. `document_end`: the token that ends a document, if tokens are to see only their own
  // document. UserError if the vocabulary is greater than the model's, and for TokenWindows.
  TextTask(Context& context, Decoder& model, const TokenData& data, uint64_t seed, int64_t validation_rows,
           std::optional<int32_t> document_end = std::nullopt);

  TaskWords words() const override { return {.samples = "sequences", .terms = "tokens", .short_terms = "tok"}; }
  int64_t tokens_per_sample() const override { return model_.config().shape.sequence; }
  double flops_per_sample() const override;
  double paper_flops_per_sample() const override;  // Narayanan et al.'s formula, AxoNN section VI-C
  std::vector<at::Tensor> inputs(
      int64_t first, int64_t count) override;  // (planes, count, sequence): ids, targets, begins of documents
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override;
  std::optional<double> validate() override;
  // The ends of documents count in the loss, and have no bytes.
  std::optional<double> bits_per_byte(double validation_loss) override;
  std::optional<double> epochs(int64_t samples) const override;
  std::string why_no_validation() const override;
  // For write_samples(), which needs a tokenizer of the data. UserError for a prompt that is too
  // long.
  void set_samples(const TextSamples& samples);
  // samples/step-000500.txt
  std::vector<std::filesystem::path> write_samples(const std::filesystem::path& run_directory, int64_t step) override;
  std::string_view host_work() const override { return model_.config().checkpoint_offload ? "activation-offload" : ""; }

 private:
  at::Tensor planes_of(int64_t rows) const;
  void set_begins(const at::Tensor& planes, int64_t row) const;
  at::Tensor loss_of(const at::Tensor& planes);
  int64_t count_validation_bytes();

  Context& context_;
  Decoder& model_;
  const TokenData& data_;
  TokenWindows windows_;
  int64_t validation_rows_;
  std::optional<int32_t> document_end_;
  std::optional<int64_t> validation_bytes_;  // counted after the first validation
  TextSamples samples_;
};

}  // namespace axonn
