#include "wrap/module_place.hpp"

#include "axonn/core/error.hpp"
#include "wrap/check/layout_check.hpp"

namespace axonn {

at::Tensor ModulePlace::compute(Context& context, const at::Tensor& x, bool training,
                                const std::function<at::Tensor(const at::Tensor&)>& itself) const {
  if (before.replicated()) check_whole(x, name);
  if (!before.replicated() && before.features > 0) {
    const int64_t width = before.layout.dim(before.features).local_size(context.shape(), context.at());
    AXONN_CHECK(before.dim < x.dim() && x.size(before.dim) == width, "wrap.parallelize", "'", name, "' takes ", width,
                " of ", before.features, before.dim == 1 ? " channels" : " features",
                " on this rank, as the module before it leaves them, got sizes ", x.sizes());
  }
  const bool computes = !layer || layer->module != nullptr || training;  // Dropout that does not train leaves x
  at::Tensor result = x;
  if (computes) {
    const at::Tensor taken = converted(context, x, before, input, name);
    result = layer ? layer->run(taken) : itself(taken);
  }
  result = converted(context, result, output, after, name);
  // Layers of axonn leave channels last in memory, and programs call view() on what LibTorch gives.
  return layer && after.replicated() ? result.contiguous() : result;
}

}  // namespace axonn
