#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/layers/layout.hpp"

namespace axonn {

// How an activation between two children of a Sequential lies on the grid. The tensor has
// LibTorch's dims, with this rank's part of one of them.
struct Stream {
  Layout layout = Layout::replicated();
  int64_t features = 0;  // size of the split dim on all ranks; 0: replicated, or equal parts of any size
  int64_t dim = -1;      // the split dim: the last one, or 1 (the channels of an image)

  bool replicated() const { return !layout.axis.has_value(); }
  bool same_place(const Stream& other) const { return layout == other.layout && (replicated() || dim == other.dim); }
};

// `x` as `to` says. `name`: the child that needs it. UserError on all ranks if it has another
// number of features.
at::Tensor converted(Context& context, const at::Tensor& x, const Stream& from, const Stream& to,
                     const std::string& name);

// The same activation with its features last, and back.
at::Tensor features_last(const at::Tensor& x, const Stream& stream);
at::Tensor features_back(const at::Tensor& x, const Stream& stream);

}  // namespace axonn
