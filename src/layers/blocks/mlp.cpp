#include "axonn/layers/blocks/mlp.hpp"

#include <utility>

#include "axonn/layers/context.hpp"
#include "axonn/layers/gelu.hpp"

namespace axonn {
namespace {

// On CPUs gelu() adds the bias; on GPUs the product does it without a launch of its own.
LinearOptions before_gelu(const Context& context, LinearOptions options) {
  options.adds_bias = !context.options().device.is_cpu();
  return options;
}

}  // namespace

MlpImpl::MlpImpl(Context& context, MlpOptions options)
    : BranchImpl(context),
      up_(context, before_gelu(context, std::move(options.up))),
      down_(context, std::move(options.down)) {
  register_module(options.up_name, up_.ptr());
  register_module(options.down_name, down_.ptr());
}

Value MlpImpl::activated(const Value& hidden) const {
  return up_->adds_bias() ? gelu(hidden) : gelu(hidden, up_->bias());
}

BranchImpl::Rest MlpImpl::begin(const Value& normalised, const AddTo& add) {
  if (down_->joins(*up_, normalised, add.dropout))
    return [this, normalised, add] { return down_->launch_joined(*up_, normalised, add); };
  return
      [this, add, hidden = up_->launch(normalised)]() mutable { return down_->launch(activated(hidden.wait()), add); };
}

}  // namespace axonn
