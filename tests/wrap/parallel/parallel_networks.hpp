#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include "wrap/parallel/parallelized.hpp"

// Sequentials whose widths do not divide by the axes.
namespace axonn::test {

namespace nn = torch::nn;

struct Mlp : nn::SequentialImpl {
  Mlp()
      : SequentialImpl(nn::Linear(20, 37), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({37})),
                       nn::Linear(nn::LinearOptions(37, 41).bias(false)), nn::ReLU(nn::ReLUOptions(true)),
                       nn::Linear(41, 5), nn::LogSoftmax(1)) {}
  static at::Tensor input() { return torch::randn({kRows, 20}, torch::kDouble); }
};

// Fewer output features than ranks: some have none.
struct OneScore : nn::SequentialImpl {
  OneScore() : SequentialImpl(nn::Linear(40, 50), nn::Tanh(), nn::Linear(50, 1)) {}
  static at::Tensor input() { return torch::randn({kRows, 40}, torch::kDouble); }
};

// Groups of GroupNorm lie on several ranks, and Flatten must gather.
struct Pictures : nn::SequentialImpl {
  Pictures()
      : SequentialImpl(nn::Conv2d(nn::Conv2dOptions(3, 10, 3).padding(1)), nn::GroupNorm(2, 10), nn::ReLU(),
                       nn::MaxPool2d(2), nn::Conv2d(nn::Conv2dOptions(10, 7, 3).stride(2).padding(1).bias(false)),
                       nn::SiLU(), nn::Conv2d(nn::Conv2dOptions(7, 9, 1)), nn::AdaptiveAvgPool2d(2), nn::Flatten(),
                       nn::Linear(36, 11), nn::Tanh(), nn::Linear(11, 1)) {}
  static at::Tensor input() { return torch::randn({kRows, 3, 8, 8}, torch::kDouble); }
};

// Flatten keeps the channels where they are, a convolution has groups, another gives few channels.
struct EvenPictures : nn::SequentialImpl {
  EvenPictures()
      : SequentialImpl(nn::Conv2d(nn::Conv2dOptions(6, 12, 3)), nn::Conv2d(nn::Conv2dOptions(12, 24, 3).groups(6)),
                       nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(24, 12, {1, 3}).groups(4).bias(false)), nn::Flatten(),
                       nn::Linear(96, 24), nn::Sigmoid()) {}
  static at::Tensor input() { return torch::randn({kRows, 6, 8, 8}, torch::kDouble); }
};

struct FewChannels : nn::SequentialImpl {
  FewChannels()
      : SequentialImpl(nn::Conv2d(nn::Conv2dOptions(9, 9, 3).padding(1).padding_mode(torch::kCircular)),
                       nn::Conv2d(nn::Conv2dOptions(9, 3, 3)), nn::Hardtanh(),
                       nn::Conv2d(nn::Conv2dOptions(3, 5, 2).bias(false)), nn::GroupNorm(5, 5), nn::MaxPool2d(2)) {}
  static at::Tensor input() { return torch::randn({kRows, 9, 7, 7}, torch::kDouble); }
};

struct Words : nn::SequentialImpl {
  Words()
      : SequentialImpl(nn::Embedding(61, 22), nn::LayerNorm(nn::LayerNormOptions({22})), nn::Linear(22, 30), nn::Mish(),
                       nn::Linear(30, 13)) {}
  static at::Tensor input() { return torch::randint(61, {kRows, 5}); }
};

struct Residual : nn::Module {
  Residual() : norm(24), inner(nn::Linear(24, 50), nn::GELU(), nn::Linear(50, 24)) {
    register_module("norm", norm);
    register_module("inner", inner);
    norm->eval();
  }
  at::Tensor forward(const at::Tensor& x) { return x + inner->forward(norm(x)); }
  nn::BatchNorm1d norm;
  nn::Sequential inner;
};

// Sequentials in a module of the user's: blocks of it that are units, a module in two places, a
// frozen one, one whose weight is used elsewhere too, and parameters in no Sequential.
struct Mixed : nn::Module {
  Mixed() : stem(20, 24), shared(24, 24), frozen(24, 24), head(24, 60) {
    frozen->weight.requires_grad_(false);
    body = nn::Sequential(Residual(), shared, nn::ReLU(), Residual(), shared, nn::Tanh(), frozen, head);
    register_module("stem", stem);
    register_module("body", body);
    tied = register_parameter("tied", head->weight);
    scale = register_parameter("scale", torch::full({60}, 0.7, torch::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor scores = body->forward(torch::tanh(stem(x)));
    return torch::matmul(scores * scale, tied);
  }
  static at::Tensor input() { return torch::randn({kRows, 20}, torch::kDouble); }
  nn::Linear stem, shared, frozen, head;
  nn::Sequential body{nullptr};
  at::Tensor tied, scale;
};

}  // namespace axonn::test
