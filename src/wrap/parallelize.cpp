#include "axonn/wrap/parallelize.hpp"

#include "wrap/wrap_module.hpp"

namespace axonn {

WrappedModule parallelize(Context& context, torch::nn::Module& module, const ShardOptions& options) {
  return wrap_module(context, module, options, [&] { return plan_layers(module, context, options.plan); });
}

}  // namespace axonn
