#pragma once

#include <cmath>

#include <torch/nn/modules/activation.h>

#include "axonn/wrap/nn.hpp"
#include "axonn/wrap/unit.hpp"
#include "wrap/parallel/parallelized.hpp"

// Modules with typed members, whose widths do not divide by the axes.
namespace axonn::test::members {

namespace nn = axonn::nn;

// Of the heads that this rank has: query, key and value (rows, length, heads * width).
inline at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t width) {
  const auto by_head = [&](const at::Tensor& x) { return x.view({x.size(0), x.size(1), -1, width}).transpose(1, 2); };
  const at::Tensor scores = torch::matmul(by_head(query), by_head(key).transpose(-2, -1)) / std::sqrt(width);
  return torch::matmul(torch::softmax(scores, -1), by_head(value)).transpose(1, 2).flatten(2);
}

// Four heads, which two ranks share and three cannot.
struct Block : nn::Module {
  explicit Block(bool pairs = true)
      : norm(nn::LayerNormOptions({24})),
        query(24, 24),
        key(24, 24),
        value(24, 24),
        out(24, 24),
        up(24, 37),
        down(nn::LinearOptions(37, 24).bias(false)) {
    register_module("norm", norm);
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
    if (!pairs) return;
    for (const nn::Linear& each : {query, key, value}) nn::keep_split(each, out, {.heads = 4});
    nn::keep_split(up, down);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor normed = norm(x);
    const at::Tensor middle = x + out(attend(query(normed), key(normed), value(normed), 6));
    return middle + down(torch::gelu(up(middle)));
  }
  nn::LayerNorm norm;
  nn::Linear query, key, value, out, up, down;
};

// Three heads, which three ranks share and two cannot; q, k and v are one product.
struct FusedBlock : nn::Module {
  explicit FusedBlock(bool pairs = true) : norm(nn::LayerNormOptions({24})), qkv(24, 72), out(24, 24) {
    register_module("norm", norm);
    register_module("qkv", qkv);
    register_module("out", out);
    if (pairs) nn::keep_split(qkv, out, {.heads = 3, .parts = 3});
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto parts = qkv(norm(x)).chunk(3, -1);
    return x + out(attend(parts[0], parts[1], parts[2], 8));
  }
  nn::LayerNorm norm;
  nn::Linear qkv, out;
};

struct Transformer : nn::Module {
  explicit Transformer(bool pairs = true)
      : words(61, 24), first(std::make_shared<Block>(pairs)), second(pairs), squeeze(24, 25), scores(25, 61) {
    register_module("words", words);
    register_module("first", first);
    register_module("second", second);
    register_module("squeeze", squeeze);
    register_module("scores", scores);
  }
  at::Tensor forward(const at::Tensor& ids) { return scores(torch::tanh(squeeze(second(first->forward(words(ids)))))); }
  static at::Tensor input() { return torch::randint(61, {kRows, 5}); }
  nn::Embedding words;
  std::shared_ptr<Block> first;
  Unit<FusedBlock> second;
  nn::Linear squeeze, scores;
};

// Its pairs are those of a plan.
struct PlannedTransformer : Transformer {
  PlannedTransformer() : Transformer(/*pairs=*/false) {}
};

// The sum of the residual branches stays split over Y from the words to the scores.
struct SplitStream : nn::Module {
  SplitStream()
      : words(61, 22),
        norm(nn::LayerNormOptions({22})),
        up(22, 31),
        down(31, 22),
        last(nn::LayerNormOptions({22})),
        scores(22, 13) {
    register_module("words", words);
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
    register_module("last", last);
    register_module("scores", scores);
    nn::keep_split(words, norm);
    nn::keep_split(norm, up);
    nn::keep_split(up, down);
    nn::keep_split(words, last);
    nn::keep_split(down, last);
    nn::keep_split(last, scores);
  }
  at::Tensor forward(const at::Tensor& ids) {
    const at::Tensor x = words(ids);
    return scores(last(x + down(torch::gelu(up(norm(x))))));
  }
  static at::Tensor input() { return torch::randint(61, {kRows, 4}); }
  nn::Embedding words;
  nn::LayerNorm norm;
  nn::Linear up, down;
  nn::LayerNorm last;
  nn::Linear scores;
};

// Residual branches with norms between their convolutions. Groups of a GroupNorm lie on several
// ranks, and each BatchNorm sees the rows of all ranks.
struct Images : nn::Module {
  Images()
      : stem(nn::Conv2dOptions(3, 10, 3).padding(1)),
        first(nn::Conv2dOptions(10, 7, 3).padding(1).bias(false)),
        norm(7),
        second(nn::Conv2dOptions(7, 10, 3).padding(1)),
        third(nn::Conv2dOptions(10, 9, 1)),
        groups(nn::GroupNormOptions(3, 9)),
        fourth(nn::Conv2dOptions(9, 10, 1)),
        whole(nn::GroupNormOptions(2, 10)),
        features(40),
        scores(40, 5) {
    register_module("stem", stem);
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    register_module("third", third);
    register_module("groups", groups);
    register_module("fourth", fourth);
    register_module("whole", whole);
    register_module("features", features);
    register_module("scores", scores);
    nn::keep_split(first, norm);
    nn::keep_split(norm, second);
    nn::keep_split(third, groups);
    nn::keep_split(groups, fourth);
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::relu(stem(images));
    x = x + second(torch::relu(norm(first(x))));
    x = x + fourth(torch::max_pool2d(torch::silu(groups(third(x))), 3, 1, 1));
    return scores(features(torch::tanh(torch::max_pool2d(whole(x), 3).view({x.size(0), -1}))));
  }
  static at::Tensor input() { return torch::randn({kRows, 3, 6, 6}, torch::kDouble); }
  nn::Conv2d stem, first;
  nn::BatchNorm2d norm;
  nn::Conv2d second, third;
  nn::GroupNorm groups;
  nn::Conv2d fourth;
  nn::GroupNorm whole;
  nn::BatchNorm1d features;
  nn::Linear scores;
};

// Children of a Sequential. The first BatchNorm has the channels of its rank, the others have all.
struct Chain : nn::SequentialImpl {
  Chain()
      : SequentialImpl(nn::Conv2d(nn::Conv2dOptions(3, 7, 3).padding(1).bias(false)), nn::BatchNorm2d(7), nn::ReLU(),
                       nn::Conv2d(nn::Conv2dOptions(7, 4, 3).stride(2).bias(false)), nn::BatchNorm2d(4), nn::Flatten(),
                       nn::Linear(nn::LinearOptions(16, 11).bias(false)), nn::BatchNorm1d(11), nn::Tanh(),
                       nn::Linear(11, 5)) {}
  static at::Tensor input() { return torch::randn({kRows, 3, 6, 6}, torch::kDouble); }
};

// Dropout of a split and of a whole tensor, and a Sequential of typed children.
struct Dropping : nn::Module {
  Dropping() : up(20, 37), split(0.3), down(37, 24), whole(0.2) {
    register_module("up", up);
    register_module("split", split);
    register_module("down", down);
    register_module("whole", whole);
    register_module("rest", rest);
    nn::keep_split(up, split);
    nn::keep_split(split, down);
  }
  at::Tensor forward(const at::Tensor& x) { return rest->forward(whole(down(torch::relu(split(up(x)))))); }
  static at::Tensor input() { return torch::randn({kRows, 20}, torch::kDouble); }
  nn::Linear up;
  nn::Dropout split;
  nn::Linear down;
  nn::Dropout whole;
  nn::Sequential rest = nn::Sequential(nn::Linear(24, 11), nn::Tanh(), nn::Dropout(0.1), nn::Linear(11, 7));
};

}  // namespace axonn::test::members
