#pragma once

#include <cstdint>
#include <memory>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

// A norm of activations: the same layout in and out. Every rank of the grid calls it.
class NormImpl : public ShardedModule {
 public:
  using ShardedModule::ShardedModule;
  virtual Value forward(const Value& input) = 0;

  // The beginning of a residual branch: forward(stream), and the stream for what is added to it.
  struct Branch {
    Value stream, normalised;
  };
  virtual Branch branch(const Value& stream) { return {stream, forward(stream)}; }
};

struct NormOptions {
  int64_t features = 0;
  Axis axis = Axis::y;  // the features are split over it
  double epsilon = 1e-5;
  bool centred = true;  // LayerNorm, which subtracts the mean and has a bias; otherwise RmsNorm
};
std::shared_ptr<NormImpl> make_norm(Context& context, const NormOptions& options);

}  // namespace axonn
