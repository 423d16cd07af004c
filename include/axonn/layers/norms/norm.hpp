#pragma once

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

}  // namespace axonn
