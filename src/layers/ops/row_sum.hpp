#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "axonn/layers/add_to.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/overlap/step/row_product.hpp"
#include "kernels/row_tail.hpp"

namespace axonn {

// The output (rows, width) of a layer. Its values are there after finish(), called once.
struct TailedRows {
  at::Tensor output;
  std::function<void()> finish;
};

// A product that nobody sums, and its tail. `bias`: undefined if it is in the product already.
TailedRows with_tail(const at::Tensor& product, std::shared_ptr<RowTail> tail, const at::Tensor& bias = {});

// A row-parallel product, its sum over `axes`, of two ranks or more, and its tail, as
// ContextOptions::forward says. `bias` may be undefined. `elsewhere`, if given, takes the
// product in place of the sum, and does its `owner`.
TailedRows sum_with_tail(Context& context, RowProduct product, AxisSet axes, std::string_view tag,
                         const at::Tensor& bias, std::shared_ptr<RowTail> tail,
                         const std::function<Pending(const RowProduct&)>& elsewhere = {});

// The same of divided rows: each rank along `axes` gets its rows of the sum, and does their tail.
TailedRows scatter_with_tail(Context& context, const RowProduct& product, AxisSet axes, std::string_view tag,
                             const at::Tensor& bias, std::shared_ptr<RowTail> tail);

// The tail of an output of these sizes but for the last one, its features. UserError of `layer`
// unless the stream has them. `add` may be null.
std::shared_ptr<RowTail> make_tail(const Context& context, const AddTo* add, std::optional<DropoutDraw> dropout,
                                   const Layout& output, int64_t features, at::IntArrayRef leading,
                                   std::string_view layer);

}  // namespace axonn
