#include "layers/ops/low_rank.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace axonn {

// Calls use(features, narrow) with the ranges of each segment: of the out features, and of A's
// rows.
template <typename Use>
void LowRank::for_segments(const Use& use) const {
  int64_t first = 0, row = 0;
  for (const int64_t width : widths_) {
    use(Range{first, first + width}, Range{row, row + options_.rank});
    first += width;
    row += options_.rank;
  }
}

void LowRank::add_to(const Tensor& product, const Tensor& rows, const Weights& weights) const {
  const Tensor narrow = at::mm(rows, weights.a.t());  // (m, s r)
  for_segments([&](Range features, Range some) {
    product.narrow(1, features.begin, features.size())
        .addmm_(narrow.narrow(1, some.begin, some.size()), weights.b.narrow(0, features.begin, features.size()).t(), 1,
                options_.scale());
  });
}

Tensor LowRank::grad_of_narrow(const Tensor& grad) const {
  const Tensor b = *b_.gathered();
  const Tensor narrow = at::empty({grad.size(0), static_cast<int64_t>(widths_.size()) * options_.rank}, grad.options());
  for_segments([&](Range features, Range some) {
    narrow.narrow(1, some.begin, some.size())
        .copy_(at::mm(grad.narrow(1, features.begin, features.size()), b.narrow(0, features.begin, features.size())));
  });
  return narrow;
}

void LowRank::add_gradient(const Tensor& grad_input, const Tensor& grad_narrow) const {
  grad_input.addmm_(grad_narrow, *a_.gathered(), 1, options_.scale());
}

void LowRank::reduce(Scheduler& scheduler, Axis in_axis, Axis out_axis, const Tensor& grad, const Tensor& grad_narrow,
                     const Tensor& rows) const {
  const Tensor narrow = at::mm(rows, a_.gathered()->t());  // this rank's part of a sum over the in axis
  const Tensor grad_a = at::mm(grad_narrow.t(), rows).mul_(options_.scale());
  const Tensor grad_b = at::empty({grad.size(1), options_.rank}, grad.options());
  for_segments([&](Range features, Range some) {
    grad_b.narrow(0, features.begin, features.size())
        .copy_(at::mm(grad.narrow(1, features.begin, features.size()).t(), narrow.narrow(1, some.begin, some.size())));
  });
  Pending a = scheduler.all_reduce(grad_a, out_axis, a_.name()),
          b = scheduler.all_reduce(grad_b.mul_(options_.scale()), in_axis, b_.name());
  const auto put = [](const ShardedParameter& parameter, const Tensor& sum) {
    parameter.reduce([&](const Tensor& block, bool add) { add ? block.add_(sum) : block.copy_(sum); });
  };
  put(a_, a.wait());
  put(b_, b.wait());
}

}  // namespace axonn
