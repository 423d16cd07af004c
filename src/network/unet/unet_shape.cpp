#include "axonn/network/unet/unet_shape.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "network/unet/unet_layers.hpp"

namespace axonn {
namespace {

using Kind = UnetStage::Kind;
constexpr int64_t kKernel = 9;  // 3x3 convolution

// Builds the list of stages. Remembers the channels, height and level after the last stage.
class Stages {
 public:
  explicit Stages(const UnetShape& shape) : shape_(shape), size_(shape.image), channels_(shape.channels) {}

  UnetStage& add(Kind kind, const std::string& name, int64_t out, int64_t skip = 0) {
    stages_.push_back(
        {.kind = kind, .name = name, .level = level_, .size = size_, .in = channels_ + skip, .out = out, .skip = skip});
    channels_ = out;
    if (kind == Kind::down) ++level_, size_ /= 2;
    if (kind == Kind::up) --level_, size_ *= 2;
    return stages_.back();
  }
  // A residual block, and attention at heights that have it.
  UnetStage& add_block(const std::string& name, int64_t out, int64_t skip = 0) {
    add(Kind::residual, name + ".residual", out, skip);
    if (std::ranges::find(shape_.attention, size_) != shape_.attention.end())
      add(Kind::attention, name + ".attention", out);
    return stages_.back();
  }
  // The stage's output is kept for a skip.
  void keep(UnetStage& stage) {
    stage.kept = true;
    kept_.push_back(stage.out);
  }
  int64_t take() {
    const int64_t channels = kept_.back();
    kept_.pop_back();
    return channels;
  }
  int64_t channels() const { return channels_; }
  std::vector<UnetStage> list() && { return std::move(stages_); }

 private:
  const UnetShape& shape_;
  int64_t level_ = 0;
  int64_t size_;
  int64_t channels_;
  std::vector<int64_t> kept_;
  std::vector<UnetStage> stages_;
};

int64_t parameters_of(const UnetShape& shape, const UnetStage& stage) {
  const int64_t in = stage.in, out = stage.out;
  switch (stage.kind) {
    case Kind::residual:
      return 2 * in + kKernel * in * out + out + (shape.embedding() + 1) * shape.conditioning(out) + 2 * out +
             kKernel * out * out + out + (in == out ? 0 : in * out + out);
    case Kind::attention:
      return 2 * in + 3 * in * in + 3 * in + in * in + in;
    case Kind::last:
      return 2 * in + kKernel * in * out + out;
    default:
      return kKernel * in * out + out;
  }
}

}  // namespace

void check_unet(const UnetShape& shape) {
  constexpr const char* kWhere = "network.unet";
  constexpr int64_t kMostChannels = 1 << 16;
  check_sizes(shape, kWhere);
  AXONN_CHECK(!shape.multipliers.empty(), kWhere, "multipliers must name one level at least");
  for (const int64_t multiplier : shape.multipliers)
    AXONN_CHECK(shape.base * multiplier <= kMostChannels, kWhere, "base x multiplier must be at most ", kMostChannels,
                ", got ", shape.base, " x ", multiplier);
  const int64_t halvings = static_cast<int64_t>(shape.multipliers.size()) - 1;
  AXONN_CHECK(halvings < 31 && shape.image % (int64_t{1} << halvings) == 0, kWhere, "images of ", shape.image, " x ",
              shape.image, " cannot be halved ", halvings, " times, as ", shape.multipliers.size(), " levels do");
  AXONN_CHECK(shape.base % 2 == 0, kWhere, "base must be even (sines and cosines of the time embedding), got ",
              shape.base);
  for (const UnetStage& stage : unet_stages(shape)) {
    if (stage.kind == Kind::first || stage.kind == Kind::down || stage.kind == Kind::up) continue;
    AXONN_CHECK(stage.in % shape.groups == 0, kWhere, "groups must divide the channels of every norm, got ",
                shape.groups, " groups and ", stage.in, " channels in ", stage.name);
    AXONN_CHECK(stage.kind != Kind::attention || stage.in % shape.heads == 0, kWhere,
                "heads must divide the channels of attention, got ", shape.heads, " heads and ", stage.in,
                " channels in ", stage.name);
  }
}

std::vector<UnetStage> unet_stages(const UnetShape& shape) {
  Stages stages(shape);
  int number = 0;
  const auto next = [&](const char* way) { return way + std::string(".") + std::to_string(number++); };
  stages.keep(stages.add(Kind::first, "first", shape.base));
  const int64_t levels = static_cast<int64_t>(shape.multipliers.size());
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t channels = shape.multipliers[static_cast<size_t>(level)] * shape.base;
    for (int64_t block = 0; block < shape.blocks; ++block) stages.keep(stages.add_block(next("down"), channels));
    if (level + 1 < levels) stages.keep(stages.add(Kind::down, next("down"), channels));
  }
  stages.add(Kind::residual, "middle.0", stages.channels());
  stages.add(Kind::attention, "middle.1", stages.channels());
  stages.add(Kind::residual, "middle.2", stages.channels());
  number = 0;
  for (int64_t level = levels - 1; level >= 0; --level) {
    const int64_t channels = shape.multipliers[static_cast<size_t>(level)] * shape.base;
    for (int64_t block = 0; block <= shape.blocks; ++block) stages.add_block(next("up"), channels, stages.take());
    if (level > 0) stages.add(Kind::up, next("up"), channels);
  }
  stages.add(Kind::last, "last", shape.output_channels());
  return std::move(stages).list();
}

Axis channel_axis(int64_t level) { return level % 2 == 0 ? Axis::y : Axis::x; }

int64_t count_parameters(const UnetShape& shape) {
  const int64_t embedding = shape.embedding();
  int64_t total = (shape.base + 1) * embedding + (embedding + 1) * embedding + shape.classes * embedding;
  for (const UnetStage& stage : unet_stages(shape)) total += parameters_of(shape, stage);
  return total;
}

double forward_flops(const UnetShape& shape) {
  double flops = 0;
  for (const LayerWork& layer : layer_table(shape)) flops += static_cast<double>(layer.count) * layer.flops;
  return flops;
}

}  // namespace axonn
