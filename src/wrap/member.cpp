#include "axonn/wrap/member.hpp"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/norms/batch_norm.hpp"
#include "wrap/check/layout_check.hpp"
#include "wrap/module_place.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

bool divided(const Context& context, const Stream& stream) {
  return !stream.replicated() && context.shape()[*stream.layout.axis] > 1;
}

}  // namespace

void check_keep_split(const KeepSplit& options, const char* where) {
  AXONN_CHECK(options.heads >= 0 && options.parts >= 1, where, "need .heads >= 0 and .parts >= 1, got ", options.heads,
              " and ", options.parts);
}

void MemberBase::link(MemberBase& first, MemberBase& second, const KeepSplit& options) {
  constexpr const char* kWhere = "nn.keep_split";
  AXONN_CHECK(!first.joined() && !second.joined(), kWhere,
              "a member was parallelized before; call keep_split() where the members are registered");
  check_keep_split(options, kWhere);
  AXONN_CHECK(!first.links_.kept || *first.links_.kept == options, kWhere,
              "the output of a member cannot stay split in two ways; give the same .heads and .parts for each pair");
  first.links_.kept = options;
  if (std::ranges::find(second.links_.from, &first) == second.links_.from.end()) second.links_.from.push_back(&first);
}

void MemberBase::join(std::shared_ptr<WrappedNetwork> network, std::shared_ptr<const ModulePlace> place) {
  network_ = std::move(network);
  place_ = std::move(place);
}

at::Tensor MemberBase::placed(const at::Tensor& x, bool training, const Itself& itself) const {
  if (!joined()) return itself(x);
  if (place_->layer && place_->layer->module != nullptr) network_->check_usable(place_->name);
  Context& context = network_->context();
  if (!network_->checks_layouts()) return place_->compute(context, x, training, itself);
  const Stream& before = place_->before;
  if (place_->takes_split && divided(context, before)) check_split(x, place_->name, *before.layout.axis, before.dim);
  const Unfollowed own;
  at::Tensor result = place_->compute(context, x, training, itself);
  if (place_->kept && divided(context, place_->after))
    follow_output(result);
  else
    stop_following(result);
  return result;
}

void MemberBase::follow_output(const at::Tensor& result) const {
  if (recomputes()) return;
  const at::NoGradGuard no_grad;
  const Stream& after = place_->after;
  const at::Tensor whole = converted(network_->context(), result.detach(), after, {}, place_->name);
  follow(network_->context(), result,
         {.member = place_->name,
          .axis = *after.layout.axis,
          .parts = place_->kept->parts,
          .features = whole.size(after.dim) / place_->kept->parts,
          .heads = place_->kept->heads,
          .whole = whole});
}

at::Tensor BatchNormBase::normalised(const at::Tensor& x, const Tensors& tensors) const {
  Context& context = network().context();
  const Layout& layout = place().input.layout;
  const int64_t channels = layout.axis ? place().input.features : x.size(1);
  // Those of this rank's channels, (1, channels, 1, ...).
  const auto mine = [&](const at::Tensor& whole) {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[1] = x.size(1);
    return redistribute(context, Value{whole, channels, Layout::replicated()}, layout).tensor.view(shape);
  };
  const auto update = [&](const at::Tensor& running, const at::Tensor& of_batch) {
    const at::NoGradGuard no_grad;
    const at::Tensor whole = redistribute(context, Value{of_batch, channels, layout}, Layout::replicated()).tensor;
    at::Tensor(running).mul_(1 - tensors.update).add_(whole.to(running.scalar_type()), tensors.update);
  };
  at::Tensor y;
  if (tensors.of_batch) {
    const NormalisedBatch batch = normalise_batch(context, x, tensors.epsilon);
    AXONN_CHECK(batch.count > 1, "nn.batch_norm", "'", place().name,
                "' has one number per channel on all ranks, whose variance is 0; give it more rows, or call eval()");
    const auto count = static_cast<double>(batch.count);
    if (tensors.update > 0) {
      update(tensors.running_mean, batch.mean);
      update(tensors.running_variance, batch.variance * (count / (count - 1)));
    }
    y = batch.tensor;
  } else {
    y = (x - mine(tensors.running_mean)) * (mine(tensors.running_variance) + tensors.epsilon).rsqrt();
  }
  if (tensors.weight.defined()) y = y * mine(tensors.weight) + mine(tensors.bias);
  return y.to(x.scalar_type());
}

}  // namespace axonn
