// The planner's table of a UNet describes the network that is trained.
#include "axonn/model/unet/parallelize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "axonn/network/unet/unet_presets.hpp"
#include "network/unet/unet_layers.hpp"

namespace axonn {
namespace {

// taps, in, out, transposed, whole input, whole output
using Weight = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool>;
using Norm = std::tuple<Axis, std::vector<int64_t>>;

struct Counted {
  std::map<Weight, int64_t> weights;
  std::map<Norm, int64_t> norms;
  std::map<Axis, int64_t> attentions;

  void add(const Conv2dOptions& conv) {
    ++weights[{conv.kernel[0] * conv.kernel[1], conv.in, conv.out, conv.transposed, conv.whole_input,
               conv.whole_output}];
  }
  void add(const LinearOptions& linear) { ++weights[{1, linear.in, linear.out, linear.transposed, false, false}]; }
  void add(const GroupNormOptions& norm) {
    const auto& segments = norm.layout.segments;
    ++norms[{*norm.layout.axis, segments.empty() ? std::vector{norm.channels} : segments}];
  }
};

Counted of_network(const UnetShape& shape) {
  Counted all;
  const UnetPlan plan = parallelize_unet(shape);
  all.add(plan.time_in);
  all.add(plan.time_out);
  all.add(plan.first);
  all.add(plan.last_norm);
  all.add(plan.last);
  for (const UnetStage& stage : unet_stages(shape)) {
    switch (stage.kind) {
      case UnetStage::Kind::residual: {
        const auto residual = parallelize_residual(shape, stage);
        all.add(residual.norm_in);
        all.add(residual.in);
        all.add(residual.embedding);
        all.add(residual.norm_out);
        all.add(residual.out);
        if (residual.shortcut) all.add(*residual.shortcut);
        break;
      }
      case UnetStage::Kind::attention: {
        const auto attention = parallelize_attention(shape, stage);
        all.add(attention.norm);
        all.add(attention.attention.qkv);
        ++all.attentions[attention.attention.attention.axis];
        all.add(attention.attention.out);
        break;
      }
      case UnetStage::Kind::down:
      case UnetStage::Kind::up:
        all.add(parallelize_resampling(stage));
        break;
      default:
        break;
    }
  }
  return all;
}

Counted of_table(const UnetShape& shape) {
  Counted all;
  for (const LayerWork& layer : layer_table(shape)) {
    if (layer.has_weight())
      all.weights[{layer.taps, layer.k, layer.n, layer.transposed, layer.whole_input, layer.whole_output}] +=
          layer.count;
    else if (layer.norm_groups > 0)
      all.norms[{layer.split_axis(), layer.segments}] += layer.count;
    else if (layer.flops > 0)
      all.attentions[layer.split_axis()] += layer.count;
  }
  return all;
}

TEST(UnetTable, HasTheLayersOfTheNetworkWithTheirRoles) {
  for (const UnetPreset& preset : unet_presets()) {
    const Counted table = of_table(preset.shape), network = of_network(preset.shape);
    EXPECT_EQ(table.weights, network.weights) << preset.name;
    EXPECT_EQ(table.norms, network.norms) << preset.name;
    EXPECT_EQ(table.attentions, network.attentions) << preset.name;
  }
}

}  // namespace
}  // namespace axonn
