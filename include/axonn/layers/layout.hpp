#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

class Context;

// The place of an activation's features (its last dim): replicated, or split over X or Y, segment
// by segment (q|k|v, skip|x). Rows are always split over Z and data, or their tokens are
// (ForwardSchedule::context). It is a value: layers compare it and refuse any layout but the one
// they need.
struct Layout {
  std::optional<Axis> axis;
  std::vector<int64_t> segments = {};  // sizes of the segments, each split separately; empty: one
  bool padded = false;                 // every rank holds ceil(features / axis size), the last ones partly padding
  // Sizes of the dims before the features, (batch, sequence), if the features are over one tensor
  // axis and the ranks of the other one divide the rows. The tensor then is (my rows, features):
  // this rank's even_part() of all rows, flattened. Empty: each of these ranks has all rows.
  std::vector<int64_t> rows = {};

  static Layout replicated() { return {}; }
  static Layout over(Axis axis, std::vector<int64_t> segments = {}) {
    return {.axis = axis, .segments = std::move(segments)};
  }
  Layout with_rows(std::vector<int64_t> sizes) const;  // UserError for rows of replicated features

  Dim dim(int64_t features) const;  // UserError when the segments do not add up to `features`
  // The axis whose ranks divide the rows, as a set; empty if they do not.
  AxisSet rows_axis() const { return rows.empty() ? AxisSet() : AxisSet(other_tensor_axis(*axis)); }
  Range my_rows(const Context& context) const;  // this rank's part of rows that are divided
  std::string to_string() const;  // "replicated", "over x in segments 64|64|64", "over y, rows [4, 12] over x"
  bool operator==(const Layout&) const = default;
};

// An activation with its layout. A replicated value has the same gradient on every X and Y rank. A
// split value has the gradient of its own features, and of its own rows if they are divided.
struct Value {
  at::Tensor tensor;     // (..., local features), rows of this rank's (z, data)
  int64_t features = 0;  // global number, without padding
  Layout layout;

  // The sizes of the dims before the features, of the rows of all ranks that divide them.
  std::vector<int64_t> leading() const {
    const auto held = tensor.sizes();
    return layout.rows.empty() ? held.slice(0, held.size() - 1).vec() : layout.rows;
  }

  // Applies a function that acts on every feature separately (GELU, SiLU), so the layout stays the
  // same.
  template <typename Function>
  Value map(Function&& function) const {
    return {std::forward<Function>(function)(tensor), features, layout};
  }
};

// An activation that a collective still works on. Call wait() once, before anything reads it and
// before backward.
class PendingValue {
 public:
  PendingValue() = default;
  PendingValue(Value value, std::function<void()> finish) : value_(std::move(value)), finish_(std::move(finish)) {}
  Value wait() {
    finish_();
    return std::move(value_);
  }

 private:
  Value value_;
  std::function<void()> finish_;
};

// A tensor that all ranks of X and Y have alike, as an activation in the type of the network.
Value whole_input(const Context& context, const at::Tensor& tensor);

// The same activation in another layout, differentiable. Gathers over the axis it leaves and splits
// over the axis it enters; so with rows that are divided. Free if the layouts are equal. Every rank
// of these axes calls it. UserError for rows that are not those of the value, and on an axis of one
// rank.
Value redistribute(Context& context, const Value& value, const Layout& layout);

// The features of `first`, then those of `second`, in one activation (a UNet's skips). The layout
// records them as segments. Nothing is exchanged. UserError unless both are split over the same
// axis, or both are replicated.
Value concatenate(const Value& first, const Value& second);

// Throws UserError naming both layouts unless `value` is laid out as `layer` needs it.
void check_layout(const Value& value, int64_t features, const Layout& needed, std::string_view layer);

}  // namespace axonn
