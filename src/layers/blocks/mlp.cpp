#include "axonn/layers/blocks/mlp.hpp"

#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/gelu.hpp"
#include "axonn/layers/swiglu.hpp"

namespace axonn {
namespace {

// On CPUs gelu() adds the bias; on GPUs the product does it without a launch of its own.
LinearOptions before_activation(const Context& context, const MlpOptions& mlp) {
  LinearOptions options = mlp.up;
  const std::vector<int64_t> halves = {mlp.down.in, mlp.down.in};
  AXONN_CHECK(!mlp.gated || options.segments == halves, "layers.mlp", "a gated MLP needs up.segments of ", mlp.down.in,
              " gates and ", mlp.down.in, " values, as many as down.in");
  options.adds_bias = mlp.gated || !mlp.up.bias || !context.options().device.is_cpu();
  return options;
}

}  // namespace

MlpImpl::MlpImpl(Context& context, MlpOptions options)
    : BranchImpl(context),
      gated_(options.gated),
      up_(context, before_activation(context, options)),
      down_(context, std::move(options.down)) {
  register_module(options.up_name, up_.ptr());
  register_module(options.down_name, down_.ptr());
}

Value MlpImpl::activated(const Value& hidden) const {
  if (gated_) return swiglu(hidden);
  return up_->adds_bias() ? gelu(hidden) : gelu(hidden, up_->bias());
}

BranchImpl::Rest MlpImpl::begin(const Value& normalised, const AddTo& add) {
  if (!gated_ && down_->joins(*up_, normalised, add.dropout))
    return [this, normalised, add] { return down_->launch_joined(*up_, normalised, add); };
  return
      [this, add, hidden = up_->launch(normalised)]() mutable { return down_->launch(activated(hidden.wait()), add); };
}

}  // namespace axonn
