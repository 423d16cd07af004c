#pragma once

#include <optional>

#include "axonn/layers/blocks/self_attention.hpp"
#include "axonn/layers/conv2d.hpp"
#include "axonn/kernels/choice/convolution_choice.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/norms/group_norm.hpp"
#include "axonn/model/unet/config.hpp"

namespace axonn {

// How a UNet is placed on the grid. See parallelize.cpp.
struct UnetPlan {
  LinearOptions time_in;
  LinearOptions time_out;
  EmbeddingOptions classes;
  Conv2dOptions first;
  GroupNormOptions last_norm;
  Conv2dOptions last;
};
struct UnetResidualPlan {
  GroupNormOptions norm_in;
  Conv2dOptions in;
  LinearOptions embedding;
  GroupNormOptions norm_out;
  Conv2dOptions out;
  std::optional<Conv2dOptions> shortcut;  // only where channels change
};
struct UnetAttentionPlan {
  GroupNormOptions norm;
  SelfAttentionOptions attention;
};

UnetPlan parallelize_unet(const UnetShape& shape);
UnetResidualPlan parallelize_residual(const UnetShape& shape, const UnetStage& stage);
UnetAttentionPlan parallelize_attention(const UnetShape& shape, const UnetStage& stage);
Conv2dOptions parallelize_resampling(const UnetStage& stage);  // down and up

// The shapes on rank 0 of all convolutions whose kernel is chosen, each once. Ranks with other
// numbers of channels, where axes do not divide them, convolve directly.
std::vector<ConvolutionShape> unet_convolutions(const UnetShape& shape, const GridShape& grid);

}  // namespace axonn
