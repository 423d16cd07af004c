#pragma once

#include <string>

#include "axonn/layers/blocks/residual_stream.hpp"
#include "axonn/layers/linear.hpp"

namespace axonn {

struct MlpOptions {
  LinearOptions up;  // gated: two segments
  LinearOptions down;
  bool gated = false;
  std::string up_name = "fc", down_name = "proj";  // names of the two submodules
};

// The MLP as a residual branch: down(gelu(up(x))). On CPUs GELU's pass adds the bias of `up`. On a
// GPU one operation does it all where LinearImpl::joins() says so. Gated, with up(x) in segments
// gate|value: down(swiglu(up(x))). UserError unless `up` then has two segments of down.in features.
class MlpImpl : public BranchImpl {
 public:
  MlpImpl(Context& context, MlpOptions options);
  Rest begin(const Value& normalised, const AddTo& add) override;
  std::string place() const override { return ".mlp"; }

 private:
  Value activated(const Value& hidden) const;

  bool gated_;

  Linear up_, down_;
};

using Mlp = Layer<MlpImpl, MlpOptions>;

}  // namespace axonn
