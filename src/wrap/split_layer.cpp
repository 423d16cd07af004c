#include "wrap/split_layer.hpp"

#include <algorithm>
#include <typeinfo>
#include <variant>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/padding.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/upsampling.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/conv2d.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/norms/group_norm.hpp"
#include "axonn/layers/norms/layer_norm.hpp"
#include "axonn/wrap/member.hpp"

namespace axonn {
namespace {

namespace nn = torch::nn;
constexpr int64_t kFewChannels = 4;  // colours: every rank computes with all of them

// T, or the typed member of it. Another class that derives from T may compute something else.
template <typename T>
const T* exactly(const nn::Module& module) {
  const bool is_it = typeid(module) == typeid(T) || typeid(module) == typeid(MemberImpl<T>);
  return is_it ? dynamic_cast<const T*>(&module) : nullptr;
}

template <typename... T>
bool is_one_of(const nn::Module& module) {
  return ((typeid(module) == typeid(T)) || ...);
}

// The axis over which a layer takes its input; `before` decides if it is split already.
Axis input_axis(const Stream& before) { return before.layout.axis.value_or(Axis::y); }

// Statistics of no features would be NaN.
bool every_rank_has_some(const Context& context, int64_t features, Axis axis) {
  return features >= context.shape()[axis];
}

SplitLayer linear(Context& context, const nn::LinearImpl& child, const Stream& before, int64_t parts) {
  const int64_t in = child.options.in_features(), out = child.options.out_features();
  AXONN_CHECK(out % parts == 0, "wrap.parallelize", "a Linear with ", out, " output features has no ", parts,
              " equal parts; give keep_split() .parts that divide them");
  LinearOptions options{
      .in = in, .out = out, .bias = child.options.bias(), .transposed = input_axis(before) == Axis::x};
  if (parts > 1) options.segments.assign(static_cast<size_t>(parts), out / parts);
  const auto layer = std::make_shared<LinearImpl>(context, options);
  return {layer, {layer->input_layout(), in, -1}, {layer->output_layout(), out, -1}, [layer, in](const at::Tensor& x) {
            return layer->forward(Value{x, in, layer->input_layout()}).tensor;
          }};
}

std::array<int64_t, 2> two(const torch::ExpandingArray<2>& sizes) { return {sizes->at(0), sizes->at(1)}; }

std::optional<SplitLayer> conv2d(Context& context, const nn::Conv2dImpl& child, const Stream& before) {
  const auto& given = child.options;
  const auto* padding = std::get_if<torch::ExpandingArray<2>>(&given.padding());
  if (padding == nullptr || !std::holds_alternative<torch::enumtype::kZeros>(given.padding_mode())) return {};
  const bool images = before.replicated() || before.dim == 1;
  const Axis axis = images ? input_axis(before) : Axis::y;
  const bool grouped = given.groups() > 1;
  if (grouped && given.groups() % context.shape()[axis] != 0) return {};
  const Conv2dOptions options{.in = given.in_channels(),
                              .out = given.out_channels(),
                              .kernel = two(given.kernel_size()),
                              .stride = two(given.stride()),
                              .padding = two(*padding),
                              .dilation = two(given.dilation()),
                              .groups = given.groups(),
                              .bias = given.bias(),
                              .transposed = axis == Axis::x,
                              .whole_input = !grouped && before.replicated() && given.in_channels() <= kFewChannels,
                              .whole_output = !grouped && given.out_channels() <= kFewChannels};
  const auto layer = std::make_shared<Conv2dImpl>(context, options);
  const Stream input{layer->input_layout(), options.in, 1}, output{layer->output_layout(), options.out, 1};
  return SplitLayer{layer, input, output, [layer, input, output](const at::Tensor& x) {
                      AXONN_CHECK(x.dim() == 4, "wrap.parallelize",
                                  "a Conv2d takes a batch of images (rows, channels, height, width), got sizes ",
                                  x.sizes());
                      return features_back(
                          layer->forward(Value{features_last(x, input), input.features, input.layout}).tensor, output);
                    }};
}

std::optional<SplitLayer> layer_norm(Context& context, const nn::LayerNormImpl& child, const Stream& before) {
  const auto& shape = child.options.normalized_shape();
  const bool last = before.replicated() || before.dim == -1;
  const Axis axis = last ? input_axis(before) : Axis::y;
  if (shape.size() != 1 || !child.options.elementwise_affine() || !every_rank_has_some(context, shape[0], axis))
    return {};
  const auto layer = std::make_shared<LayerNormImpl>(
      context, LayerNormOptions{.features = shape[0], .axis = axis, .epsilon = child.options.eps()});
  const Stream stream{Layout::over(axis), shape[0], -1};
  return SplitLayer{layer, stream, stream, [layer, stream](const at::Tensor& x) {
                      return layer->forward(Value{x, stream.features, stream.layout}).tensor;
                    }};
}

std::optional<SplitLayer> group_norm(Context& context, const nn::GroupNormImpl& child, const Stream& before) {
  const int64_t channels = child.options.num_channels(), groups = child.options.num_groups();
  const Axis axis = before.replicated() || before.dim == 1 ? input_axis(before) : Axis::y;
  if (!child.options.affine() || channels % groups != 0 || !every_rank_has_some(context, channels, axis)) return {};
  const Stream stream{Layout::over(axis), channels, 1};
  const auto layer = std::make_shared<GroupNormImpl>(
      context, GroupNormOptions{
                   .groups = groups, .channels = channels, .layout = stream.layout, .epsilon = child.options.eps()});
  return SplitLayer{layer, stream, stream, [layer, stream](const at::Tensor& x) {
                      const at::Tensor last = features_last(x, stream);  // (rows, ..., channels)
                      const at::Tensor image = last.reshape({last.size(0), -1, 1, last.size(-1)});
                      const Value result = layer->forward(Value{image, stream.features, stream.layout});
                      return features_back(result.tensor.view(last.sizes()), stream);
                    }};
}

std::optional<SplitLayer> embedding(Context& context, const nn::EmbeddingImpl& child) {
  const auto& given = child.options;
  if (given.padding_idx() || given.max_norm() || given.scale_grad_by_freq() || given.sparse()) return {};
  const auto layer = std::make_shared<EmbeddingImpl>(
      context, EmbeddingOptions{.vocabulary = given.num_embeddings(), .features = given.embedding_dim()});
  return SplitLayer{layer, {}, {Layout::over(Axis::y), given.embedding_dim(), -1}, [layer](const at::Tensor& ids) {
                      return layer->forward(ids.to(at::kLong)).tensor;
                    }};
}

}  // namespace

std::optional<SplitLayer> split_layer(Context& context, const torch::nn::Module& child, const Stream& before,
                                      int64_t parts) {
  if (const auto* module = exactly<nn::LinearImpl>(child)) return linear(context, *module, before, parts);
  if (const auto* module = exactly<nn::Conv2dImpl>(child)) return conv2d(context, *module, before);
  if (const auto* module = exactly<nn::LayerNormImpl>(child)) return layer_norm(context, *module, before);
  if (const auto* module = exactly<nn::GroupNormImpl>(child)) return group_norm(context, *module, before);
  if (const auto* module = exactly<nn::EmbeddingImpl>(child)) return embedding(context, *module);
  return {};
}

bool is_dropout(const nn::Module& module) { return exactly<nn::DropoutImpl>(module) != nullptr; }
bool is_linear(const nn::Module& module) { return exactly<nn::LinearImpl>(module) != nullptr; }
bool is_embedding(const nn::Module& module) { return exactly<nn::EmbeddingImpl>(module) != nullptr; }
bool is_norm(const nn::Module& module) {
  return exactly<nn::LayerNormImpl>(module) != nullptr || exactly<nn::GroupNormImpl>(module) != nullptr;
}

bool keeps_stream(const Context& context, const nn::Module& child, const Stream& before) {
  if (is_one_of<nn::IdentityImpl, nn::ReLUImpl, nn::ReLU6Impl, nn::GELUImpl, nn::SiLUImpl, nn::MishImpl,
                nn::SigmoidImpl, nn::TanhImpl, nn::LeakyReLUImpl, nn::ELUImpl, nn::SELUImpl, nn::CELUImpl,
                nn::SoftplusImpl, nn::SoftsignImpl, nn::HardtanhImpl, nn::HardshrinkImpl, nn::SoftshrinkImpl,
                nn::TanhshrinkImpl, nn::LogSigmoidImpl, nn::ThresholdImpl>(child))
    return true;
  return before.dim == 1 && !before.replicated() &&
         every_rank_has_some(context, before.features, *before.layout.axis) &&  // LibTorch refuses images of no channel
         (dynamic_cast<const BatchNormBase*>(&child) != nullptr ||
          is_one_of<nn::MaxPool2dImpl, nn::AvgPool2dImpl, nn::AdaptiveMaxPool2dImpl, nn::AdaptiveAvgPool2dImpl,
                    nn::ZeroPad2dImpl, nn::ReflectionPad2dImpl, nn::ReplicationPad2dImpl, nn::UpsampleImpl>(child));
}

std::optional<Stream> flattened(const Context& context, const nn::Module& child, const Stream& before) {
  const auto* flatten = exactly<nn::FlattenImpl>(child);
  if (flatten == nullptr || flatten->options.start_dim() != 1 || flatten->options.end_dim() != -1) return {};
  if (before.replicated() || before.dim != 1 || before.features % context.shape()[*before.layout.axis] != 0) return {};
  return Stream{before.layout, 0, -1};
}

bool draws_random_numbers(const nn::Module& module) {
  const auto dropout = [&]<typename... T>() {
    return ((dynamic_cast<const T*>(&module) != nullptr && dynamic_cast<const T*>(&module)->options.p() > 0) || ...);
  };
  if (dropout.operator()<nn::DropoutImpl, nn::Dropout2dImpl, nn::Dropout3dImpl, nn::AlphaDropoutImpl,
                         nn::FeatureAlphaDropoutImpl>())
    return true;
  const auto inside = [&]<typename... T>() {
    return ((dynamic_cast<const T*>(&module) != nullptr && dynamic_cast<const T*>(&module)->options.dropout() > 0) ||
            ...);
  };
  return inside.operator()<nn::RNNImpl, nn::LSTMImpl, nn::GRUImpl, nn::MultiheadAttentionImpl>() ||
         dynamic_cast<const nn::RReLUImpl*>(&module) != nullptr;
}

at::Tensor as_named(const at::Tensor& stored, at::IntArrayRef sizes) {
  if (sizes.size() != 4) return stored.view(sizes);
  return stored.view({sizes[0], sizes[2], sizes[3], sizes[1]}).permute({0, 3, 1, 2});
}

}  // namespace axonn
