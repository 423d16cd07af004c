#pragma once

#include <array>
#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// The same of a UNet: weights and their parts as above, biases and norms as vectors. Activations, in elements a picture, with i and o the
// channels that come in (the skip's among them) and go out times the pixels, A the axis of the level's stream and B the other:
//   residual   3 i/A + 3 o/B     inputs of both norms, of both SiLUs and of both convolutions; scale-shift: o/B more; dropout: its mask,
//   o/B attention  2 i/A + 4 i/B     input and output of the norm; q, k, v and what is mixed; the sums of the exponentials, pixels heads/B
//   down, up   i/A, 4 i/A        the convolution's input
//   last       3 i/Y
// Skips are among them: they are inputs of the layers that come next. logits: 3 output pictures. block: the gradients that are alive at
// once in the stage that needs most. Left out: the time embedding, and what cuDNN takes. Blocks are the stages between the first
// convolution and the last norm; of a checkpointed one the input, i/A, and the whole list of the largest while it is run again.
MemoryPrediction predict_memory(const UnetShape& shape, const GridShape& grid, const MemoryOptions& options);

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
