#include "axonn/layers/group_norm.hpp"

#include <tuple>

#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"
#include "layers/picture.hpp"

namespace axonn {
namespace {

// What both operations below share.
class GroupNormOperation : public Operation {
 public:
  GroupNormOperation(GroupNormOptions options, ShardedParameter weight, ShardedParameter bias)
      : options_(std::move(options)), weight_(std::move(weight)), bias_(std::move(bias)) {}
  std::string name() const override { return "group_norm " + weight_.name(); }
  void release() override { input_.reset(); }

 protected:
  void reduce(const Tensor& grad_weight, const Tensor& grad_bias) {
    weight_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_weight) : block.copy_(grad_weight); });
    bias_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_bias) : block.copy_(grad_bias); });
  }

  GroupNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  Saved input_;
  Tensor mean_;
  Tensor reciprocal_deviation_;
};

// Every group on one rank: LibTorch's own kernels.
class LocalGroupNorm : public GroupNormOperation {
 public:
  using GroupNormOperation::GroupNormOperation;

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    if (input.numel() == 0) return input.clone();
    Tensor output;
    std::tie(output, mean_, reciprocal_deviation_) =
        at::native_group_norm(channels_second(input), *weight_.gathered(), *bias_.gathered(), input.size(0), input.size(3),
                              input.size(1) * input.size(2), groups(input), options_.epsilon);
    return channels_last(output);
  }

  Tensor backward(const Tensor& grad_output, bool input_needed) override {
    const Tensor input = input_.get();
    if (input.numel() == 0) {
      reduce(at::zeros({input.size(3)}, input.options()), at::zeros({input.size(3)}, input.options()));
      return grad_output;
    }
    const auto [grad_input, grad_weight, grad_bias] = at::native_group_norm_backward(
        channels_second(grad_output.contiguous()), channels_second(input), mean_, reciprocal_deviation_, *weight_.gathered(), input.size(0),
        input.size(3), input.size(1) * input.size(2), groups(input), {input_needed, true, true});
    reduce(grad_weight, grad_bias);
    return input_needed ? channels_last(grad_input) : Tensor();
  }

 private:
  int64_t groups(const Tensor& input) const { return input.size(3) / (options_.channels / options_.groups); }
};

// Some group on several ranks. B pictures, C channels, c of them here, G groups.
class SplitGroupNorm : public GroupNormOperation {
 public:
  SplitGroupNorm(Context& context, GroupNormOptions options, ShardedParameter weight, ShardedParameter bias, Tensor group_of_channel)
      : GroupNormOperation(std::move(options), std::move(weight), std::move(bias)),
        context_(context),
        group_of_channel_(std::move(group_of_channel)) {}

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const auto [variance, mean] = at::var_mean(wide(input), at::IntArrayRef{1, 2}, /*correction=*/0, /*keepdim=*/false);  // (B, c)
    const Tensor all = redistribute(context_, {at::stack({mean, variance}), options_.channels, options_.layout}, Layout::replicated())
                           .tensor.unflatten(-1, {options_.groups, -1});  // (2, B, G, C/G)
    // Chan et al. for parts of one size: the variance of a group is the mean of its channels' variances and of their means' squared
    // distances from its mean.
    const Tensor means = all[0].mean(-1, /*keepdim=*/true);
    const Tensor variances = (all[1] + (all[0] - means).square()).mean(-1);
    mean_ = per_pixel(means.squeeze(-1));
    reciprocal_deviation_ = per_pixel((variances + options_.epsilon).rsqrt_());
    return (input - mean_).mul_(reciprocal_deviation_).mul_(*weight_.gathered()).add_(*bias_.gathered()).to(input.scalar_type());
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = input_.get(), normalised = (input - mean_).mul_(reciprocal_deviation_);
    const Tensor grad = wide(grad_output) * *weight_.gathered();
    const Tensor of_channels = at::stack({grad.sum({1, 2}), (grad * normalised).sum({1, 2})});  // (2, B, c)
    const Tensor of_groups =
        at::zeros({2, input.size(0), options_.groups}, of_channels.options()).index_add_(-1, group_of_channel_, of_channels);
    Pending pending = context_.scheduler().all_reduce(of_groups, *options_.layout.axis, "group_norm backward");
    reduce((wide(grad_output) * normalised).sum({0, 1, 2}), wide(grad_output).sum({0, 1, 2}));
    const auto count = static_cast<double>(input.size(1) * input.size(2) * (options_.channels / options_.groups));
    const Tensor sums = pending.wait().div_(count);
    return (grad - per_pixel(sums[0])).sub_(normalised * per_pixel(sums[1])).mul_(reciprocal_deviation_).to(grad_output.scalar_type());
  }

 private:
  // (B, G) -> (B, 1, 1, c)
  Tensor per_pixel(const Tensor& of_groups) const { return of_groups.index_select(-1, group_of_channel_).unsqueeze(1).unsqueeze(1); }

  Context& context_;
  Tensor group_of_channel_;
};

// The group of every channel of this rank.
Tensor groups_of_channels(const Context& context, const GroupNormOptions& options) {
  const Dim dim = options.layout.dim(options.channels);
  std::vector<int64_t> groups(static_cast<size_t>(dim.local_size(context.shape(), context.at())));
  for (const auto& piece : dim.pieces(context.shape(), context.at()))
    for (int64_t i = 0; i < piece.global.size(); ++i)
      groups[static_cast<size_t>(piece.local_begin + i)] = (piece.global.begin + i) / (options.channels / options.groups);
  return at::tensor(groups, at::kLong);
}

bool some_group_on_two_ranks(const Context& context, const GroupNormOptions& options) {
  if (!options.layout.axis) return false;
  const int64_t size = options.channels / options.groups;
  Coordinate member = context.at();
  for (int i = 0; i < context.shape()[*options.layout.axis]; ++i) {
    member[*options.layout.axis] = i;
    for (const auto& piece : options.layout.dim(options.channels).pieces(context.shape(), member))
      if (piece.global.begin % size != 0 || piece.global.end % size != 0) return true;
  }
  return false;
}

void check_options(const GroupNormOptions& options) {
  AXONN_CHECK(options.channels > 0 && options.groups > 0 && options.channels % options.groups == 0, "layers.group_norm", options.groups,
              " groups must divide the ", options.channels, " channels");
}

}  // namespace

GroupNormImpl::GroupNormImpl(Context& context, GroupNormOptions options)
    : ShardedModule(context),
      options_((check_options(options), std::move(options))),
      weight_(register_sharded("weight",
                               {.spec = {.dims = {options_.layout.dim(options_.channels)}}, .initial = Initial::ones(), .decay = false})),
      bias_(register_sharded("bias", {.spec = {.dims = {options_.layout.dim(options_.channels)}}, .decay = false})),
      exchanges_(some_group_on_two_ranks(context, options_)) {}

Value GroupNormImpl::forward(const Value& input) {
  check_layout(input, options_.channels, options_.layout, "layers.group_norm");
  AXONN_CHECK(input.tensor.dim() == 4, "layers.group_norm", "pictures must be (batch, height, width, channels), got ", input.tensor.dim(),
              " dims");
  std::unique_ptr<Operation> operation;
  if (exchanges_) {
    if (!group_of_channel_.defined()) group_of_channel_ = groups_of_channels(context(), options_).to(input.tensor.device());
    operation = std::make_unique<SplitGroupNorm>(context(), options_, weight_, bias_, group_of_channel_);
  } else {
    operation = std::make_unique<LocalGroupNorm>(options_, weight_, bias_);
  }
  return {record(std::move(operation), input.tensor, {&weight_, &bias_}), input.features, input.layout};
}

}  // namespace axonn
