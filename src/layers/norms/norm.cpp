#include "axonn/layers/norms/norm.hpp"

#include "axonn/layers/norms/layer_norm.hpp"
#include "axonn/layers/norms/rms_norm.hpp"

namespace axonn {

std::shared_ptr<NormImpl> make_norm(Context& context, const NormOptions& options) {
  const auto [features, axis, epsilon, centred] = options;
  if (centred)
    return std::make_shared<LayerNormImpl>(context,
                                           LayerNormOptions{.features = features, .axis = axis, .epsilon = epsilon});
  return std::make_shared<RmsNormImpl>(context, RmsNormOptions{.features = features, .axis = axis, .epsilon = epsilon});
}

}  // namespace axonn
