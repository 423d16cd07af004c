#include "wrapped_networks.hpp"

#include <cmath>
#include <fstream>
#include <iterator>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>

namespace axonn::bench {
namespace {

constexpr int64_t kVocabulary = 256, kClasses = 10;

torch::nn::Conv2dOptions convolution(int64_t in, int64_t out, int64_t size, int64_t stride) {
  return torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false);
}

}  // namespace

DecoderBlock::DecoderBlock(int64_t hidden, int64_t heads)
    : head(hidden / heads),
      norm1(torch::nn::LayerNormOptions({hidden})),
      qkv(hidden, 3 * hidden),
      out(hidden, hidden),
      norm2(torch::nn::LayerNormOptions({hidden})),
      up(hidden, 4 * hidden),
      down(4 * hidden, hidden) {
  register_module("norm1", norm1);
  register_module("qkv", qkv);
  register_module("out", out);
  register_module("norm2", norm2);
  register_module("up", up);
  register_module("down", down);
}

at::Tensor DecoderBlock::forward(const at::Tensor& given) {
  const at::Tensor parts = qkv(norm1(given)).unflatten(-1, {-1, 3, head}).permute({3, 0, 2, 1, 4});
  const at::Tensor attended =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, /*dropout_p=*/0, /*is_causal=*/true);
  const at::Tensor x = given + out(attended.transpose(1, 2).flatten(2));
  return x + down(at::gelu(up(norm2(x)), "tanh"));
}

PlainGpt::PlainGpt(const WrappedSize& size)
    : tokens(kVocabulary, size.hidden),
      positions(size.sequence, size.hidden),
      norm(torch::nn::LayerNormOptions({size.hidden})),
      head(torch::nn::LinearOptions(size.hidden, kVocabulary).bias(false)) {
  register_module("tokens", tokens);
  register_module("positions", positions);
  register_module("blocks", blocks);
  for (int64_t i = 0; i < size.layers; ++i) blocks->push_back(DecoderBlock(size.hidden, size.heads));
  register_module("norm", norm);
  register_module("head", head);
  for (const auto& each : named_parameters()) {
    const std::string& name = each.key();
    const bool narrow = name.ends_with("out.weight") || name.ends_with("down.weight");
    if (each.value().dim() > 1)
      torch::nn::init::normal_(each.value(), 0,
                               narrow ? 0.02 / std::sqrt(2.0 * static_cast<double>(size.layers)) : 0.02);
    else if (name.ends_with("bias"))
      torch::nn::init::zeros_(each.value());
  }
}

at::Tensor PlainGpt::loss(const WrappedBatch& batch) {
  const at::Tensor x = norm(blocks->forward(tokens(batch.inputs) + positions->weight));
  return torch::nn::functional::cross_entropy(head(x).to(at::kFloat).flatten(0, 1), batch.targets.flatten());
}

ResidualBlock::ResidualBlock(int64_t in, int64_t out, int64_t stride)
    : first(convolution(in, out, 3, stride)), first_norm(out), second(convolution(out, out, 3, 1)), second_norm(out) {
  register_module("first", first);
  register_module("first_norm", first_norm);
  register_module("second", second);
  register_module("second_norm", second_norm);
  if (in != out) shortcut = register_module("shortcut", torch::nn::Conv2d(convolution(in, out, 1, stride)));
}

at::Tensor ResidualBlock::forward(const at::Tensor& x) {
  const at::Tensor inner = second_norm(second(at::relu(first_norm(first(x)))));
  return at::relu(inner + (shortcut ? shortcut(x) : x));
}

PlainResNet::PlainResNet(const WrappedSize& size)
    : stem(convolution(3, size.base, 3, 1)), stem_norm(size.base), head(size.base * size.multipliers.back(), kClasses) {
  register_module("stem", stem);
  register_module("stem_norm", stem_norm);
  register_module("blocks", blocks);
  int64_t channels = size.base;
  for (const int64_t multiplier : size.multipliers)
    for (int64_t i = 0; i < size.blocks; ++i) {
      const int64_t out = multiplier * size.base;
      blocks->push_back(ResidualBlock(channels, out, channels == out ? 1 : 2));
      channels = out;
    }
  register_module("head", head);
  for (const auto& each : named_parameters())
    if (each.value().dim() > 1) torch::nn::init::normal_(each.value(), 0, 0.05);
  torch::nn::init::zeros_(head->bias);
}

at::Tensor PlainResNet::loss(const WrappedBatch& batch) {
  const at::Tensor x =
      blocks->forward(at::relu(stem_norm(stem(batch.inputs.to(stem->weight.scalar_type()))))).mean({2, 3});
  return torch::nn::functional::cross_entropy(head(x).to(at::kFloat), batch.targets);
}

std::shared_ptr<LossModule> plain_network(const WrappedSize& size, uint64_t seed) {
  torch::manual_seed(seed);
  if (size.network == "gpt") return std::make_shared<PlainGpt>(size);
  return std::make_shared<PlainResNet>(size);
}

WrappedBatches::WrappedBatches(const WrappedSize& size, const std::string& file, uint64_t seed, int64_t part,
                               int64_t parts)
    : size_(size), generator_(at::detail::createCPUGenerator(seed)), part_(part), parts_(parts) {
  if (size.network != "gpt") return;
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  text_ = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, reinterpret_cast<char*>(text_.mutable_data_ptr<uint8_t>()));
}

WrappedBatch WrappedBatches::next() {
  const int64_t rows = size_.batch / parts_, first = part_ * rows;
  if (size_.network != "gpt")
    return {at::randn({size_.batch, 3, size_.image, size_.image}, generator_).narrow(0, first, rows),
            at::randint(kClasses, {size_.batch}, generator_, at::kLong).narrow(0, first, rows)};
  const at::Tensor starts = at::randint(text_.numel() - size_.sequence, {size_.batch}, generator_, at::kLong);
  std::vector<at::Tensor> windows;
  for (int64_t row = first; row < first + rows; ++row)
    windows.push_back(text_.narrow(0, starts[row].item<int64_t>(), size_.sequence + 1));
  const at::Tensor all = at::stack(windows).to(at::kLong);
  return {all.narrow(1, 0, size_.sequence), all.narrow(1, 1, size_.sequence)};
}

}  // namespace axonn::bench
