#include "wrap/check/shadow.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/nan_to_num.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Of the largest value. Faults of a layout are far above.
double tolerance(at::ScalarType type) {
  switch (c10::toRealValueType(type)) {
    case at::kDouble:
      return 1e-8;
    case at::kFloat:
      return 1e-3;
    default:
      return 5e-2;
  }
}

// This rank's part of `whole`, whose dim is so many equal parts; nothing if they cannot be split
// so.
std::optional<at::Tensor> piece(const at::Tensor& whole, int64_t dim, int64_t parts, const SplitOutput& split) {
  if (whole.size(dim) % parts != 0) return {};
  const int64_t width = whole.size(dim) / parts;
  if (width * split.mine.begin % split.features != 0 || width * split.mine.end % split.features != 0) return {};
  const int64_t begin = width * split.mine.begin / split.features, end = width * split.mine.end / split.features;
  return whole.unflatten(dim, {parts, width}).narrow(dim + 1, begin, end - begin).flatten(dim, dim + 1);
}

}  // namespace

SplitOutput::SplitOutput(Context& on, std::string of, Axis over, int64_t features_of_a_part, int64_t heads_of_a_part)
    : member(std::move(of)),
      context(on),
      axis(over),
      features(features_of_a_part),
      heads(heads_of_a_part),
      mine(even_part(features, on.shape()[over], on.at()[over])) {}

std::optional<int64_t> SplitOutput::on_all_ranks(int64_t indices) const {
  constexpr int64_t kMost = int64_t{1} << 31;  // above, it is no size: the end of a slice to the end
  if (mine.size() == 0 || indices < 0 || indices > kMost || indices * features % mine.size() != 0) return {};
  return indices * features / mine.size();
}

std::vector<int64_t> SplitOutput::least(const std::vector<int64_t>& values) const {
  const at::Tensor all = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, all.mutable_data_ptr<int64_t>());
  context->communicators().on_cpu(axis).all_reduce(all, ReduceOp::min).wait();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

const Shadow* shadow_of(const at::Tensor& x) {
  return dynamic_cast<const Shadow*>(x.unsafeGetTensorImpl()->get_backend_meta());
}

void give_shadow(const at::Tensor& x, const at::Tensor& whole, int64_t parts,
                 std::shared_ptr<const SplitOutput> split) {
  x.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Shadow>(whole, parts, std::move(split)));
}

void take_shadow(const at::Tensor& x) {
  if (shadow_of(x) != nullptr) x.unsafeGetTensorImpl()->set_backend_meta({});
}

bool same_values(const at::Tensor& first, const at::Tensor& second) {
  if (first.sizes() != second.sizes() || first.scalar_type() != second.scalar_type()) return false;
  const at::Tensor got = first.detach(), need = second.detach();
  if (at::equal(got, need)) return true;
  if (!got.is_floating_point() && !got.is_complex()) return false;
  const at::Tensor largest = at::nan_to_num(need.abs(), 0, 0, 0).max();
  const at::Tensor near = (got - need).abs() <= largest * tolerance(got.scalar_type());
  return (near | (got == need) | (got.isnan() & need.isnan())).all().item<bool>();
}

bool is_piece(const at::Tensor& local, const at::Tensor& whole, int64_t dim, int64_t parts, const SplitOutput& split) {
  const auto need = piece(whole, dim, parts, split);
  return need && same_values(local, *need);
}

std::optional<int64_t> differing_dim(const at::Tensor& local, const at::Tensor& whole) {
  std::optional<int64_t> found;
  for (int64_t dim = 0; dim < local.dim() && local.dim() == whole.dim(); ++dim) {
    if (local.size(dim) == whole.size(dim)) continue;
    if (found) return {};
    found = dim;
  }
  return found;
}

int64_t parts_of_piece(const at::Tensor& local, const at::Tensor& whole, const SplitOutput& split) {
  // Without other sizes, other ranks can only have nothing.
  if (local.sizes() == whole.sizes()) return split.mine.size() == split.features && same_values(local, whole) ? 1 : 0;
  const auto dim = differing_dim(local, whole);
  if (!dim) return 0;
  for (int64_t parts = 1; parts <= std::max<int64_t>(local.size(*dim), 1); ++parts)
    if (is_piece(local, whole, *dim, parts, split)) return parts;
  return 0;
}

std::string describe(const at::Tensor& local, const Shadow& shadow) {
  const SplitOutput& split = *shadow.split;
  return detail::concatenate("the split output of '", split.member, "' (sizes ", local.sizes(), " on this rank of ",
                             split.context->shape()[split.axis], " along ", to_string(split.axis), ", ",
                             shadow.whole.sizes(), " whole)");
}

}  // namespace axonn
