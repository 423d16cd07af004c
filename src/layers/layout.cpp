#include "axonn/layers/layout.hpp"

#include <algorithm>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

Coordinate moved(Coordinate at, Axis axis, int index) {
  at[axis] = index;
  return at;
}

// This rank's features of a replicated tensor, contiguous.
Tensor cut(const Context& context, const Tensor& whole, const Dim& dim) {
  const auto held = dim.local_ranges(context.shape(), context.at());
  const int64_t local = dim.local_size(context.shape(), context.at());
  std::vector<int64_t> shape = whole.sizes().vec();
  shape.back() = local;
  Tensor part = at::zeros(shape, whole.options());  // padding stays zero
  for (const auto& each : held)
    part.narrow(-1, each.local_begin, each.global.size())
        .copy_(whole.narrow(-1, each.global.begin, each.global.size()));
  return part;
}

// The whole tensor from the parts of the ranks along `axis`.
Tensor gather(Context& context, const Tensor& part, const Dim& dim, Axis axis) {
  const int size = context.shape()[axis];
  int64_t widest = 0;
  for (int i = 0; i < size; ++i)
    widest = std::max(widest, dim.local_size(context.shape(), moved(context.at(), axis, i)));
  std::vector<int64_t> shape = part.sizes().vec();
  shape.back() = widest;
  Tensor sent = part;
  if (part.size(-1) != widest) {
    sent = at::zeros(shape, part.options());
    sent.narrow(-1, 0, part.size(-1)).copy_(part);
  }
  const Tensor parts = context.scheduler().all_gather(sent.contiguous(), axis, "redistribute").wait();
  shape.back() = dim.size();
  Tensor whole = at::empty(shape, part.options());
  for (int i = 0; i < size; ++i)
    for (const auto& each : dim.local_ranges(context.shape(), moved(context.at(), axis, i)))
      whole.narrow(-1, each.global.begin, each.global.size())
          .copy_(parts[i].narrow(-1, each.local_begin, each.global.size()));
  return whole;
}

// Of all rows.
Tensor convert_features(Context& context, const Tensor& tensor, int64_t features, const Layout& from,
                        const Layout& to) {
  if (from.with_rows({}) == to.with_rows({})) return tensor;
  const Tensor whole = from.axis ? gather(context, tensor, from.dim(features), *from.axis) : tensor;
  return to.axis ? cut(context, whole, to.dim(features)) : whole;
}

// (..., features) of all rows -> a copy of those of this rank, as `to` has them.
Tensor take_rows(const Context& context, const Tensor& tensor, const Layout& to) {
  const Range mine = to.my_rows(context);
  return rows_of(tensor).narrow(0, mine.begin, mine.size()).clone();
}

// `rows`: the sizes of the dims before the features, of all rows.
Tensor convert(Context& context, const Tensor& tensor, int64_t features, const std::vector<int64_t>& rows,
               const Layout& from, const Layout& to) {
  Tensor whole = tensor;
  if (!from.rows.empty()) {
    std::vector<int64_t> sizes = rows;
    sizes.push_back(tensor.size(-1));
    const int64_t all = c10::multiply_integers(rows);
    whole = context.scheduler().gather_rows(tensor, all, from.rows_axis(), "redistribute").wait().view(sizes);
  }
  const Tensor converted = convert_features(context, whole, features, from, to);
  return to.rows.empty() ? converted : take_rows(context, converted, to);
}

// Its backward is the reverse conversion: a replicated side has equal gradients on all ranks, a
// split side has the gradients of its own features.
class Redistribute : public Operation {
 public:
  Redistribute(Context& context, const Value& value, Layout to)
      : context_(context), features_(value.features), rows_(value.leading()), from_(value.layout), to_(std::move(to)) {}
  std::string name() const override { return "redistribute"; }
  Tensor forward(const Tensor& input) override { return convert(context_, input, features_, rows_, from_, to_); }
  Tensor backward(const Tensor& grad_output, bool) override {
    return convert(context_, grad_output, features_, rows_, to_, from_);
  }

 private:
  ContextHandle context_;
  int64_t features_;
  std::vector<int64_t> rows_;
  Layout from_;
  Layout to_;
};

bool same_place(const Context& context, const Layout& a, const Layout& b) {
  if (a == b) return true;
  if (a.rows != b.rows || !a.rows.empty()) return false;
  const auto split = [&](const Layout& layout) { return layout.axis && context.shape()[*layout.axis] > 1; };
  return !split(a) && !split(b) && !a.padded && !b.padded;
}

}  // namespace

Layout Layout::with_rows(std::vector<int64_t> sizes) const {
  AXONN_CHECK(axis || sizes.empty(), "layers.layout", "rows ", at::IntArrayRef(sizes),
              " are divided over the axis, x or y, that does not split the features, and layout '", to_string(),
              "' has them over neither; begin with Layout::over(axis)");
  Layout layout = *this;
  layout.rows = std::move(sizes);
  return layout;
}

Dim Layout::dim(int64_t features) const {
  if (!axis) return Dim::whole(features);
  if (padded) return Dim::padded(features, *axis);
  if (segments.empty()) return Dim::split(features, *axis);
  Dim result;
  for (const int64_t size : segments) result.segments.push_back({.size = size, .axis = *axis});
  AXONN_CHECK(result.size() == features, "layers.layout", "segments of layout '", to_string(), "' hold ", result.size(),
              " features, need ", features);
  return result;
}

Range Layout::my_rows(const Context& context) const {
  const Axis divided = other_tensor_axis(*axis);
  return even_part(c10::multiply_integers(rows), context.shape()[divided], context.at()[divided]);
}

std::string Layout::to_string() const {
  if (!axis) return "replicated";
  std::string text = detail::concatenate("over ", axonn::to_string(*axis), padded ? " (padded)" : "");
  for (size_t i = 0; i < segments.size(); ++i) text += detail::concatenate(i == 0 ? " in segments " : "|", segments[i]);
  if (!rows.empty())
    text += detail::concatenate(", rows ", at::IntArrayRef(rows), " over ", axonn::to_string(other_tensor_axis(*axis)));
  return text;
}

Value whole_input(const Context& context, const Tensor& tensor) {
  return {tensor.to(context.options().dtype), tensor.size(-1), Layout::replicated()};
}

Value redistribute(Context& context, const Value& value, const Layout& layout) {
  AXONN_CHECK(layout.rows.empty() ||
                  (layout.axis && context.shape().size(layout.rows_axis()) > 1 && layout.rows == value.leading()),
              "layers.redistribute",
              "two ranks or more, over the axis that does not split the features, divide the rows of the value, ",
              at::IntArrayRef(value.leading()), "; got '", layout.to_string(), "'; take what stream_layout() returns");
  if (same_place(context, value.layout, layout)) return {value.tensor, value.features, layout};
  return {record(std::make_unique<Redistribute>(context, value, layout), value.tensor), value.features, layout};
}

Value concatenate(const Value& first, const Value& second) {
  AXONN_CHECK(first.layout.axis == second.layout.axis && first.layout.rows == second.layout.rows &&
                  !first.layout.padded && !second.layout.padded,
              "layers.concatenate", "both must be split over the same axis without padding, got '",
              first.layout.to_string(), "' and '", second.layout.to_string(),
              "'; redistribute(context, value, layout) converts");
  Layout layout{.axis = first.layout.axis, .rows = first.layout.rows};
  if (layout.axis)
    for (const Value* value : {&first, &second}) {
      if (value->layout.segments.empty())
        layout.segments.push_back(value->features);
      else
        layout.segments.insert(layout.segments.end(), value->layout.segments.begin(), value->layout.segments.end());
    }
  return {at::cat({first.tensor, second.tensor}, -1), first.features + second.features, std::move(layout)};
}

void check_layout(const Value& value, int64_t features, const Layout& needed, std::string_view layer) {
  AXONN_CHECK(value.features == features, std::string(layer), "input has ", value.features,
              " features, this layer needs ", features);
  AXONN_CHECK(value.layout == needed, std::string(layer), "input is laid out '", value.layout.to_string(),
              "', this layer needs '", needed.to_string(), "'; redistribute(context, value, layout) converts");
}

}  // namespace axonn
