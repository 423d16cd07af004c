#include "wrap/stream.hpp"

#include "axonn/core/error.hpp"
#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.parallelize";

int64_t total_features(const Context& context, const at::Tensor& x, const Stream& stream) {
  if (stream.features > 0) return stream.features;
  return x.size(stream.dim) * (stream.replicated() ? 1 : context.shape()[*stream.layout.axis]);
}

at::Tensor moved(Context& context, const at::Tensor& x, const Stream& from, const Layout& to, int64_t features) {
  const Value value{features_last(x, from), features, from.layout};
  return features_back(redistribute(context, value, to).tensor, from);
}

}  // namespace

at::Tensor features_last(const at::Tensor& x, const Stream& stream) {
  return stream.dim == 1 ? x.movedim(1, -1).contiguous() : x;
}

at::Tensor features_back(const at::Tensor& x, const Stream& stream) { return stream.dim == 1 ? x.movedim(-1, 1) : x; }

at::Tensor converted(Context& context, const at::Tensor& x, const Stream& from, const Stream& to,
                     const std::string& name) {
  const auto check = [&](const Stream& held) {
    if (to.features == 0) return;  // replicated, or the child takes what there is
    AXONN_CHECK(to.dim < x.dim() && x.dim() > 0, kWhere, "'", name, "' takes ", to.features, " channels in dim ",
                to.dim, ", got sizes ", x.sizes());
    const int64_t got = total_features(context, x, {held.layout, held.features, to.dim});
    AXONN_CHECK(got == to.features, kWhere, "'", name, "' takes ", to.features,
                to.dim == 1 ? " channels, got " : " features, got ", got, " (sizes on this rank: ", x.sizes(), ")");
  };
  if (from.replicated() && to.replicated()) return x;
  if (from.replicated()) {
    check({});
    return moved(context, x, {.layout = {}, .features = 0, .dim = to.dim}, to.layout, to.features);
  }
  if (!to.replicated() && from.dim == to.dim) {
    check(from);
    return from.layout == to.layout ? x : moved(context, x, from, to.layout, to.features);
  }
  const at::Tensor whole = moved(context, x, from, Layout::replicated(), total_features(context, x, from));
  return converted(context, whole, {}, to, name);
}

}  // namespace axonn
