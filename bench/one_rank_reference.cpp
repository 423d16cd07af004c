#include "one_rank_reference.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <torch/types.h>

using at::Tensor;

struct OneRankReference::Impl {
  struct Block {
    Tensor norm_1_weight, norm_1_bias, qkv_weight, qkv_bias, out_weight, out_bias;
    Tensor norm_2_weight, norm_2_bias, up_weight, up_bias, down_weight, down_bias;
  };

  axonn::DecoderConfig config;
  std::vector<Tensor> matrices, vectors;
  Tensor tokens, positions, norm_weight, norm_bias, head;
  std::vector<Block> blocks;
  std::vector<Tensor> means[2], squares[2], counts[2];

  Tensor matrix(int64_t rows, int64_t columns) {
    matrices.push_back(torch::randn({rows, columns}).mul_(0.02).set_requires_grad(true));
    return matrices.back();
  }
  Tensor vector(int64_t size, double value) {
    vectors.push_back(torch::full({size}, value).set_requires_grad(true));
    return vectors.back();
  }

  explicit Impl(const axonn::DecoderConfig& given) : config(given) {
    const int64_t h = config.shape.hidden;
    tokens = matrix(config.shape.vocabulary, h);
    positions = matrix(config.shape.sequence, h);
    for (int64_t i = 0; i < config.shape.layers; ++i)
      blocks.push_back({vector(h, 1), vector(h, 0), matrix(3 * h, h), vector(3 * h, 0), matrix(h, h), vector(h, 0),
                        vector(h, 1), vector(h, 0), matrix(4 * h, h), vector(4 * h, 0), matrix(h, 4 * h),
                        vector(h, 0)});
    norm_weight = vector(h, 1);
    norm_bias = vector(h, 0);
    head = matrix(config.shape.vocabulary, h);
    for (const int kind : {0, 1})
      for (const Tensor& parameter : kind == 0 ? matrices : vectors) {
        means[kind].push_back(torch::zeros_like(parameter));
        squares[kind].push_back(torch::zeros_like(parameter));
        counts[kind].push_back(torch::zeros({}));
      }
  }

  Tensor attention(const Tensor& input, const Block& block) const {
    const int64_t batch = input.size(0), length = input.size(1), heads = config.shape.heads;
    const auto parts = at::linear(input, block.qkv_weight, block.qkv_bias)
                           .view({batch, length, 3, heads, config.shape.hidden / heads})
                           .unbind(2);
    const Tensor mixed = at::scaled_dot_product_attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2),
                                                          parts[2].transpose(1, 2), {}, 0.0, true);
    return at::linear(mixed.transpose(1, 2).reshape({batch, length, config.shape.hidden}), block.out_weight,
                      block.out_bias);
  }

  Tensor logits(const Tensor& ids) const {
    const std::vector<int64_t> features = {config.shape.hidden};
    Tensor stream = at::embedding(tokens, ids) + positions.narrow(0, 0, ids.size(1));
    for (const Block& block : blocks) {
      stream = stream + attention(at::layer_norm(stream, features, block.norm_1_weight, block.norm_1_bias), block);
      const Tensor normed = at::layer_norm(stream, features, block.norm_2_weight, block.norm_2_bias);
      stream = stream + at::linear(at::gelu(at::linear(normed, block.up_weight, block.up_bias), "tanh"),
                                   block.down_weight, block.down_bias);
    }
    return at::linear(at::layer_norm(stream, features, norm_weight, norm_bias), head);
  }

  static std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
    std::vector<Tensor> result;
    for (const Tensor& parameter : parameters) result.push_back(parameter.grad());
    return result;
  }

  void update() {
    const torch::NoGradGuard no_grad;
    double squared = 0;
    for (const auto* parameters : {&matrices, &vectors})
      for (const Tensor& norm : at::_foreach_norm(gradients(*parameters))) squared += std::pow(norm.item<double>(), 2);
    const double scale = std::min(1.0, 1.0 / (std::sqrt(squared) + 1e-6));
    for (const int kind : {0, 1}) {
      auto& parameters = kind == 0 ? matrices : vectors;
      const auto grads = gradients(parameters);
      at::_foreach_add_(counts[kind], 1);
      at::_fused_adamw_(parameters, grads, means[kind], squares[kind], {}, counts[kind], 1e-3, 0.9, 0.95,
                        kind == 0 ? 0.1 : 0.0, 1e-8, false, false, torch::tensor(1 / scale, torch::kFloat), {});
      for (Tensor& parameter : parameters) parameter.mutable_grad().reset();
    }
  }
};

OneRankReference::OneRankReference(const axonn::DecoderConfig& config) : impl_(std::make_unique<Impl>(config)) {}
OneRankReference::~OneRankReference() = default;

double OneRankReference::step(const Tensor& ids, const Tensor& targets) {
  const Tensor logits = impl_->logits(ids);
  const Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
  loss.backward();
  impl_->update();
  return loss.item<double>();
}
