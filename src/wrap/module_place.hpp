#pragma once

#include <functional>
#include <optional>
#include <string>

#include "axonn/wrap/split_plan.hpp"
#include "wrap/split_layer.hpp"

namespace axonn {

// How a module of LibTorch computes on the grid: which layer takes its place, and between which
// layouts.
struct ModulePlace {
  std::string name;
  std::optional<SplitLayer> layer;      // nothing: the module itself computes
  Stream before, input, output, after;  // given to it, needed and left by what computes, expected from it
  bool takes_split = false;             // a typed member, and other members leave its input split
  std::optional<KeepSplit> kept = {};   // ... and it leaves its own output so

  // UserError on all ranks if `x` does not lie as `before` says.
  at::Tensor compute(Context& context, const at::Tensor& x, bool training,
                     const std::function<at::Tensor(const at::Tensor&)>& itself) const;
  bool converts() const { return !before.same_place(input) || !output.same_place(after); }
};

}  // namespace axonn
