#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

// The networks of bench/peers.py and bench/peers_resnet.py as plain torch::nn modules, with the
// same initial weights of a seed.
namespace axonn::bench {

struct WrappedSize {
  std::string network = "gpt";  // or resnet
  int64_t layers = 6, hidden = 384, heads = 6, sequence = 256;
  int64_t image = 32, base = 32, blocks = 2;
  std::vector<int64_t> multipliers = {1, 2, 4};
  int64_t batch = 12;  // rows of all ranks
};

struct WrappedBatch {
  at::Tensor inputs, targets;
};

// Any of them. The loss is a mean over the targets.
struct LossModule : torch::nn::Module {
  virtual at::Tensor loss(const WrappedBatch& batch) = 0;
};

struct DecoderBlock : torch::nn::Module {
  DecoderBlock(int64_t hidden, int64_t heads);
  at::Tensor forward(const at::Tensor& given);

  int64_t head;
  torch::nn::LayerNorm norm1;
  torch::nn::Linear qkv, out;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear up, down;
};

struct PlainGpt : LossModule {
  explicit PlainGpt(const WrappedSize& size);
  at::Tensor loss(const WrappedBatch& batch) override;

  torch::nn::Embedding tokens, positions;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};

struct ResidualBlock : torch::nn::Module {
  ResidualBlock(int64_t in, int64_t out, int64_t stride);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d first_norm;
  torch::nn::Conv2d second;
  torch::nn::BatchNorm2d second_norm;
  torch::nn::Conv2d shortcut{nullptr};  // for another shape
};

// A ResNet for small images (He et al., 2016, section 4.2), with BatchNorm in training.
struct PlainResNet : LossModule {
  explicit PlainResNet(const WrappedSize& size);
  at::Tensor loss(const WrappedBatch& batch) override;

  torch::nn::Conv2d stem;
  torch::nn::BatchNorm2d stem_norm;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};

std::shared_ptr<LossModule> plain_network(const WrappedSize& size, uint64_t seed);

// Rows [part * batch / parts, (part + 1) * batch / parts) of step after step: random windows of a
// file's bytes for gpt, random images for resnet.
class WrappedBatches {
 public:
  WrappedBatches(const WrappedSize& size, const std::string& file, uint64_t seed, int64_t part, int64_t parts);
  WrappedBatch next();

 private:
  WrappedSize size_;
  at::Tensor text_;
  at::Generator generator_;
  int64_t part_, parts_;
};

}  // namespace axonn::bench
