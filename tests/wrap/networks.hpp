#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformer.h>
#include <torch/types.h>

#include "axonn/wrap/unit.hpp"

// Networks of torch::nn modules. Each gives one tensor per row of the batch.
namespace axonn::test {

inline constexpr int64_t kRows = 12;

// The network of PyTorch's C++ example of distributed training, with its sizes and in evaluation of
// dropout.
struct Mnist : torch::nn::Module {
  Mnist()
      : conv1(torch::nn::Conv2dOptions(1, 10, 5)),
        conv2(torch::nn::Conv2dOptions(10, 20, 5)),
        fc1(320, 50),
        fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv2_drop", conv2_drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    conv2_drop->eval();
  }
  at::Tensor forward(at::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop(conv2(x)), 2)).view({-1, 320});
    return torch::log_softmax(fc2(torch::relu(fc1(x))), 1);
  }
  static at::Tensor input() { return torch::randn({kRows, 1, 28, 28}, torch::kDouble); }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1, fc2;
};

// `Norm` is torch::nn::BatchNorm2d or axonn's.
template <typename Norm>
struct BlockOf : torch::nn::Module {
  BlockOf(int64_t in, int64_t out, int64_t stride)
      : first(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)),
        second(torch::nn::Conv2dOptions(out, out, 3).padding(1)),
        first_norm(out),
        skip(torch::nn::Conv2dOptions(in, out, 1).stride(stride)) {
    register_module("first", first);
    register_module("first_norm", first_norm);
    register_module("second", second);
    register_module("skip", skip);
  }
  at::Tensor forward(const at::Tensor& x) {
    return (second(first_norm(first(x)).relu_()) + skip(x)).relu_();  // in place, as many write it
  }

  torch::nn::Conv2d first, second;
  Norm first_norm;
  torch::nn::Conv2d skip;
};

template <typename Norm>
struct ResNetOf : torch::nn::Module {
  using Block = BlockOf<Norm>;
  ResNetOf()
      : stem(torch::nn::Conv2dOptions(3, 12, 3).padding(1)),
        blocks(torch::nn::Sequential({{"a", Block(12, 12, 1)}, {"b", Block(12, 20, 2)}, {"c", Block(20, 20, 1)}})),
        head(20, 10) {
    register_module("stem", stem);
    register_module("blocks", blocks);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) { return head(blocks->forward(stem(x).relu_()).mean({2, 3})); }
  static at::Tensor input() { return torch::randn({kRows, 3, 8, 8}, torch::kDouble); }

  torch::nn::Conv2d stem;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};

using ResNet = ResNetOf<torch::nn::BatchNorm2d>;

// `Recurrent` is torch::nn::LSTM or a unit of it.
template <typename Recurrent>
struct LstmModel : torch::nn::Module {
  LstmModel()
      : words(61, 24),
        lstm(torch::nn::LSTMOptions(24, 20).num_layers(2).batch_first(true).bidirectional(true)),
        scores(40, 61) {
    register_module("words", words);
    register_module("lstm", lstm);
    register_module("scores", scores);
  }
  at::Tensor forward(const at::Tensor& ids) {
    auto [output, state] = lstm(words(ids));
    return scores(output) + std::get<0>(state).sum(2).sum(0).view({-1, 1, 1});
  }
  static at::Tensor input() { return torch::randint(61, {kRows, 5}); }

  torch::nn::Embedding words;
  Recurrent lstm;
  torch::nn::Linear scores;
};

struct Translator : torch::nn::Module {
  Translator() : transformer(torch::nn::TransformerOptions(24, 4, 2, 2).dim_feedforward(48).dropout(0)) {
    register_module("transformer", transformer);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor source = x.transpose(0, 1);
    return transformer(source, source.roll(1, 0)).transpose(0, 1);
  }
  static at::Tensor input() { return torch::randn({kRows, 4, 24}, torch::kDouble); }

  torch::nn::Transformer transformer;
};

// Words and scores have one tensor, a module has two names, and a parameter has no dims.
struct Tied : torch::nn::Module {
  Tied() : words(61, 40), norm(torch::nn::LayerNormOptions({40})), shared(40, 40) {
    register_module("words", words);
    register_module("norm", norm);
    register_module("up", shared);
    register_module("down", shared);
    tied = register_parameter("tied", words->weight);
    scale = register_parameter("scale", torch::full({}, 0.7, torch::kDouble));
    frozen = register_parameter("frozen", torch::randn({1500}, torch::kDouble), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor middle = shared(torch::gelu(shared(norm(words(ids)))));
    return torch::linear(middle, tied) * scale + frozen.sum();
  }
  static at::Tensor input() { return torch::randint(61, {kRows, 3}); }

  torch::nn::Embedding words;
  torch::nn::LayerNorm norm;
  torch::nn::Linear shared;
  at::Tensor tied, scale, frozen;
};

}  // namespace axonn::test
