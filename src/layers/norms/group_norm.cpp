#include "axonn/layers/norms/group_norm.hpp"

#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "layers/ops/fused_group_norm.hpp"
#include "layers/operation.hpp"
#include "kernels/cpu/channel_passes.hpp"

namespace axonn {
namespace {

// Shapes: B images, C channels, c of them here. G groups, g of them here if every group is on one
// rank.
class GroupNormOperation : public Operation {
 public:
  // `group_of_channel` (c): defined if some group lies on several ranks.
  GroupNormOperation(Context& context, GroupNormOptions options, ShardedParameter weight, ShardedParameter bias,
                     Tensor group_of_channel)
      : context_(context),
        options_(std::move(options)),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        group_of_channel_(std::move(group_of_channel)) {}

  std::string name() const override { return "group_norm " + weight_.name(); }

  Tensor forward(const Tensor& input /* (B, height, width, c) */) override {
    input_.keep(input);
    ChannelMoments moments = channel_moments(input);  // (B, c)
    if (exchanges()) {
      const Tensor all =
          redistribute(context_, {at::stack({moments.mean, moments.variance}), options_.channels, options_.layout},
                       Layout::replicated())
              .tensor;  // (2, B, C)
      moments = {.mean = all[0], .variance = all[1]};
    }
    // Chan et al. for parts of equal size: a group's variance is the mean, over its channels, of
    // the channel's variance plus the squared distance of its mean from the group's mean.
    const Tensor means = by_group(moments.mean), mean = means.mean(-1);  // (B, g or G)
    const Tensor variance = (by_group(moments.variance) + (means - mean.unsqueeze(-1)).square_()).mean(-1);
    mean_ = of_channels(mean);
    reciprocal_deviation_ = of_channels((variance + options_.epsilon).rsqrt_());
    const Tensor weight = wide(*weight_.gathered()), bias = wide(*bias_.gathered());
    return normalise(input, mean_, reciprocal_deviation_ * weight, bias.expand_as(mean_));
  }

  Tensor backward(const Tensor& grad_output, bool input_needed) override {
    const Tensor input = input_.get(), weight = wide(*weight_.gathered());
    const ChannelSums sums = channel_sums(grad_output, input, mean_);  // (B, c)
    const Tensor products = sums.product * reciprocal_deviation_;      // sums of gradient * normalised input
    Tensor of_groups = at::stack({sums.gradient * weight, products * weight});
    if (exchanges())
      of_groups = at::zeros({2, input.size(0), options_.groups}, of_groups.options())
                      .index_add_(-1, group_of_channel_, of_groups);
    else
      of_groups = by_group(of_groups).sum(-1);
    Pending pending{of_groups};
    if (exchanges())
      pending = context_->scheduler().all_reduce(of_groups, *options_.layout.axis, "group_norm backward");
    reduce(products.sum(0), sums.gradient.sum(0));
    const auto count = static_cast<double>(input.size(1) * input.size(2) * (options_.channels / options_.groups));
    of_groups = pending.wait().div_(count);
    if (!input_needed) return Tensor();
    return combine(grad_output, input, mean_, reciprocal_deviation_ * weight,
                   of_channels(of_groups[1]).mul_(reciprocal_deviation_).mul_(reciprocal_deviation_).neg_(),
                   of_channels(of_groups[0]).mul_(reciprocal_deviation_).neg_());
  }

  void release() override { input_.reset(); }

 private:
  bool exchanges() const { return group_of_channel_.defined(); }
  // (..., C or c) -> (..., G or g, C/G)
  Tensor by_group(const Tensor& numbers) const {
    return numbers.unflatten(-1, {-1, options_.channels / options_.groups});
  }
  // (B, G or g) -> (B, c)
  Tensor of_channels(const Tensor& of_groups) const {
    if (exchanges()) return of_groups.index_select(-1, group_of_channel_);
    return of_groups.repeat_interleave(options_.channels / options_.groups, -1);
  }

  void reduce(const Tensor& grad_weight, const Tensor& grad_bias) {
    weight_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_weight) : block.copy_(grad_weight); });
    bias_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_bias) : block.copy_(grad_bias); });
  }

  ContextHandle context_;
  GroupNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  Tensor group_of_channel_;
  Saved input_;
  Tensor mean_;                  // (B, c)
  Tensor reciprocal_deviation_;  // (B, c)
};

// The group of every channel of this rank.
Tensor groups_of_channels(const Context& context, const GroupNormOptions& options) {
  const Dim dim = options.layout.dim(options.channels);
  std::vector<int64_t> groups(static_cast<size_t>(dim.local_size(context.shape(), context.at())));
  for (const auto& each : dim.local_ranges(context.shape(), context.at()))
    for (int64_t i = 0; i < each.global.size(); ++i)
      groups[static_cast<size_t>(each.local_begin + i)] = (each.global.begin + i) / (options.channels / options.groups);
  return at::tensor(groups, at::kLong);
}

bool some_group_on_two_ranks(const Context& context, const GroupNormOptions& options) {
  if (!options.layout.axis) return false;
  const int64_t size = options.channels / options.groups;
  Coordinate member = context.at();
  for (int i = 0; i < context.shape()[*options.layout.axis]; ++i) {
    member[*options.layout.axis] = i;
    for (const auto& each : options.layout.dim(options.channels).local_ranges(context.shape(), member))
      if (each.global.begin % size != 0 || each.global.end % size != 0) return true;
  }
  return false;
}

void check_options(const GroupNormOptions& options) {
  AXONN_CHECK(options.channels > 0 && options.groups > 0 && options.channels % options.groups == 0, "layers.group_norm",
              options.groups, " groups must divide the ", options.channels, " channels");
}

}  // namespace

GroupNormImpl::GroupNormImpl(Context& context, GroupNormOptions options)
    : NormImpl(context),
      options_((check_options(options), std::move(options))),
      weight_(register_sharded(
          "weight",
          {.spec = {.dims = {options_.layout.dim(options_.channels)}}, .initial = Initial::ones(), .decay = false})),
      bias_(register_sharded("bias", {.spec = {.dims = {options_.layout.dim(options_.channels)}}, .decay = false})),
      exchanges_(some_group_on_two_ranks(context, options_)) {}

void GroupNormImpl::check(const Value& input) const {
  check_layout(input, options_.channels, options_.layout, "layers.group_norm");
  AXONN_CHECK(input.tensor.dim() == 4, "layers.group_norm", "images must be (batch, height, width, channels), got ",
              input.tensor.dim(), " dims");
}

Value GroupNormImpl::forward(const Value& input) {
  check(input);
  const std::optional<Value> norm = fused(input, /*silu=*/false, {});
  return norm ? *norm : plain(input);
}

Value GroupNormImpl::activated(const Value& input, const at::Tensor& scale_and_shift) {
  check(input);
  const int64_t batch = input.tensor.size(0), numbers = 2 * input.tensor.size(3);
  AXONN_CHECK(!scale_and_shift.defined() || scale_and_shift.sizes() == at::IntArrayRef({batch, numbers}),
              "layers.group_norm", "scale and shift must be ", batch, " x ", numbers, ", got ",
              scale_and_shift.sizes());
  if (const auto result = fused(input, /*silu=*/true, scale_and_shift)) return *result;
  return plain(input).map([&](const Tensor& norm) {
    if (!scale_and_shift.defined()) return at::silu(norm);
    const auto of_images = scale_and_shift.unsqueeze(1).unsqueeze(1).chunk(2, -1);  // (batch, 1, 1, channels)
    return at::silu(norm * (1 + of_images[0]) + of_images[1]);
  });
}

Value GroupNormImpl::plain(const Value& input) {
  if (exchanges_ && !group_of_channel_.defined())
    group_of_channel_ = groups_of_channels(context(), options_).to(input.tensor.device());
  auto operation = std::make_unique<GroupNormOperation>(context(), options_, weight_, bias_, group_of_channel_);
  return {record(std::move(operation), input.tensor, {&weight_, &bias_}), input.features, input.layout};
}

std::optional<Value> GroupNormImpl::fused(const Value& input, bool silu, const Tensor& scale_and_shift) {
  const int64_t groups = input.tensor.size(3) * options_.groups / options_.channels;
  if (exchanges_ || !input.tensor.is_cuda() || !context().options().kernels.group_norm ||
      !fused_group_norm_fits(input.tensor, groups, context().arena_types().gradients))
    return std::nullopt;
  auto operation = fused_group_norm(weight_, bias_, {groups, options_.epsilon, silu}, scale_and_shift);
  return Value{record(std::move(operation), input.tensor, {&weight_, &bias_}, {scale_and_shift}), input.features,
               input.layout};
}

}  // namespace axonn
