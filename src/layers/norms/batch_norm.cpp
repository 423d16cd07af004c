#include "axonn/layers/norms/batch_norm.hpp"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "layers/operation.hpp"

namespace axonn {
namespace {

constexpr AxisSet kRows = {Axis::z, Axis::data};  // ranks along them have other rows

// All dims but that of the channels.
std::vector<int64_t> summed_dims(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (i != 1) dims.push_back(i);
  return dims;
}

// (channels) -> (1, channels, 1, ...)
Tensor per_channel(const Tensor& numbers, const Tensor& x) {
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = numbers.size(0);
  return numbers.view(shape);
}

NormalisedBatch moments_of_all_ranks(Context& context, const Tensor& x) {
  const int64_t channels = x.size(1), mine = channels == 0 ? 0 : x.numel() / channels;
  const Tensor mean = x.sum(summed_dims(x)).div_(std::max<int64_t>(mine, 1));
  const Tensor squares = (x - per_channel(mean, x)).square_().sum(summed_dims(x));
  const Tensor numbers = at::full({1}, mine, x.options());
  const Tensor all = context.scheduler().all_gather(at::cat({numbers, mean, squares}), kRows, "batch norm").wait();
  // Chan et al.: parts of any size, in the order of the ranks.
  const Tensor counts = all.narrow(1, 0, 1), means = all.narrow(1, 1, channels),
               squared = all.narrow(1, 1 + channels, channels), count = counts.sum();
  NormalisedBatch result;
  result.mean = (means * counts).sum(0) / count;
  result.variance = (squared + (means - result.mean).square_() * counts).sum(0) / count;
  result.count = static_cast<int64_t>(count.item<double>());
  return result;
}

class NormaliseBatch : public Operation {
 public:
  NormaliseBatch(Context& context, const NormalisedBatch& moments, double epsilon)
      : context_(context),
        mean_(moments.mean),
        reciprocal_deviation_((moments.variance + epsilon).rsqrt_()),
        count_(static_cast<double>(moments.count)) {}
  std::string name() const override { return "normalise_batch"; }

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    return normalised(wide(input)).to(input.scalar_type());
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = input_.get(), y = normalised(wide(input)), grad = wide(grad_output);
    const Tensor sums = at::stack({grad.sum(summed_dims(y)), (grad * y).sum(summed_dims(y))});
    const Tensor means = context_->scheduler().all_reduce(sums, kRows, "batch norm").wait().div_(count_);
    return (grad - per_channel(means[0], y) - y * per_channel(means[1], y))
        .mul_(per_channel(reciprocal_deviation_, y))
        .to(input.scalar_type());
  }

  void release() override { input_.reset(); }

 private:
  Tensor normalised(const Tensor& x) const {
    return (x - per_channel(mean_, x)).mul_(per_channel(reciprocal_deviation_, x));
  }

  ContextHandle context_;
  Tensor mean_, reciprocal_deviation_;  // (channels)
  double count_;
  Saved input_;
};

}  // namespace

NormalisedBatch normalise_batch(Context& context, const at::Tensor& x, double epsilon) {
  NormalisedBatch result;
  {
    const at::NoGradGuard no_grad;
    result = moments_of_all_ranks(context, wide(x));
  }
  result.tensor = record(std::make_unique<NormaliseBatch>(context, result, epsilon), x);
  return result;
}

}  // namespace axonn
