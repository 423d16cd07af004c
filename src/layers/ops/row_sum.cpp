#include "layers/ops/row_sum.hpp"

#include <optional>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

TailedRows finished_by(Pending sum, std::shared_ptr<RowTail> tail, at::Tensor bias, bool at_owner) {
  const at::Tensor output = sum.tensor();
  return {output, [sum = std::move(sum), tail = std::move(tail), bias = std::move(bias), at_owner]() mutable {
            const at::NoGradGuard no_grad;
            const at::Tensor sums = sum.wait();
            if (!at_owner) tail->apply(sums, bias);
            tail->release_residual();
          }};
}

}  // namespace

TailedRows with_tail(const at::Tensor& product, std::shared_ptr<RowTail> tail, const at::Tensor& bias) {
  return finished_by(Pending(product), std::move(tail), bias, /*at_owner=*/false);
}

TailedRows sum_with_tail(Context& context, RowProduct product, AxisSet axes, std::string_view tag,
                         const at::Tensor& bias, std::shared_ptr<RowTail> tail,
                         const std::function<Pending(const RowProduct&)>& elsewhere) {
  const bool at_owner = elsewhere || context.scheduler().owner_computes(product, axes);
  if (at_owner) product.owner = tail->at_owner(bias, c10::typeMetaToScalarType(product.options.dtype()), product.width);
  Pending sum = elsewhere ? elsewhere(product) : context.scheduler().sum(product, axes, tag);
  return finished_by(std::move(sum), std::move(tail), bias, at_owner);
}

TailedRows scatter_with_tail(Context& context, const RowProduct& product, AxisSet axes, std::string_view tag,
                             const at::Tensor& bias, std::shared_ptr<RowTail> tail) {
  return finished_by(context.scheduler().scatter(product, axes, tag), std::move(tail), bias, /*at_owner=*/false);
}

std::shared_ptr<RowTail> make_tail(const Context& context, const AddTo* add, std::optional<DropoutDraw> dropout,
                                   const Layout& output, int64_t features, at::IntArrayRef leading,
                                   std::string_view layer) {
  const bool at_once = context.options().kernels.tail;
  if (add == nullptr) return std::make_shared<RowTail>(std::nullopt, at::Tensor(), at_once);
  check_layout(add->stream, features, output, layer);
  const at::IntArrayRef given = add->stream.tensor.sizes();
  AXONN_CHECK(given.slice(0, given.size() - 1) == leading, std::string(layer),
              "the stream must have the rows of the output, ", leading, ", got ", given);
  return std::make_shared<RowTail>(std::move(dropout), add->stream.tensor.detach(), at_once);
}

}  // namespace axonn
