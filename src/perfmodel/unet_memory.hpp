#pragma once

#include <array>
#include <vector>

#include "axonn/perfmodel/unet.hpp"
#include "perfmodel/stored_tensors.hpp"

namespace axonn {

// predict_memory() of a UNet, with what does not depend on the grid done once: a search asks for hundreds of grids.
class UnetMemory {
 public:
  explicit UnetMemory(const UnetShape& shape);
  MemoryPrediction predict(const GridShape& grid, const MemoryOptions& options) const;

 private:
  using ByAxis = std::array<int64_t, 2>;  // elements a picture that are divided by x, and by y

  void add(const UnetStage& stage);
  void add_weight(Axis from, int64_t in, int64_t out, int64_t taps);  // with its bias
  void add_tensor(ShardSpec spec);
  void add_vector(Axis axis, int64_t size) { add_tensor({.dims = {Dim::split(size, axis)}}); }
  template <typename OnRank>
  int64_t activation_elements(const MemoryOptions& options, const OnRank& on_rank) const;

  // Of a stage, for backward.
  struct Kept {
    ByAxis input{};    // all that is kept of a checkpointed stage
    ByAxis all{};      // the input among them
    ByAxis dropped{};  // beside, with dropout
  };
  void keep(Axis axis, int64_t elements) { kept_.back().all[static_cast<size_t>(axis)] += elements; }

  UnetShape shape_;
  std::vector<StoredTensors> tensors_;
  std::vector<Kept> kept_;        // the last stage's last; the first convolution keeps pictures, which are not counted
  std::vector<ByAxis> backward_;  // temporaries at one time
};

}  // namespace axonn
