#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/model/unet/parallelize.hpp"

namespace axonn {

// The time (and class) embedding after its SiLU, (batch, features), with features over Y and over
// X, because levels alternate between these axes.
struct UnetEmbedding {
  Value over_x;
  Value over_y;
  const Value& over(Axis axis) const { return axis == Axis::x ? over_x : over_y; }
};

// One of unet_stages() in network/unet/unet_shape.hpp: images (batch, height, width, channels/axis)
// to images.
class UnetModule : public torch::nn::Module {
 public:
  virtual Value forward(const Value& input, const UnetEmbedding& embedding) = 0;
};

// The UNet of improved diffusion on the grid of `context`. Parameter names are those of the stages:
// time.in, time.out, classes, first, down.N.residual.{norm_in, in, embedding, norm_out, out,
// shortcut}, down.N.attention.{norm, qkv, projection}, down.N, middle.N..., up.N..., last_norm,
// last. Materialize it before the first forward. Every rank of the grid calls forward with the
// images of its (z, data).
class Unet : public torch::nn::Module {
 public:
  static constexpr int64_t kNoClass = -1;  // an image of unknown class: nothing is added to its time embedding

  Unet(Context& context, const UnetConfig& config);

  // images (batch, height, width, channels) and times (batch, any number type) -> (batch, height,
  // width, output channels). `classes` (batch, int64, may contain kNoClass) is given if the network
  // has classes. All of them are the same on all X and Y ranks.
  at::Tensor forward(const at::Tensor& images, const at::Tensor& times, const at::Tensor& classes = {});
  const UnetConfig& config() const { return config_; }

 private:
  struct Stage {
    std::shared_ptr<UnetModule> module;
    bool takes_skip;
    bool kept;
  };
  Value embed_classes(const at::Tensor& classes);
  UnetEmbedding embed(const at::Tensor& times, const at::Tensor& classes);

  ContextHandle context_;
  UnetConfig config_;
  Linear time_in_, time_out_;
  Embedding classes_{nullptr};
  Conv2d first_;
  std::vector<Stage> stages_;  // without the first and the last
  GroupNorm last_norm_;
  Conv2d last_;
};

}  // namespace axonn
