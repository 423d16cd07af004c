#pragma once

#include <array>
#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// The memory of a UNet. Weights and their parts are as in memory.hpp; biases and norms are vectors.
// Activations are in elements per image. i and o are the input channels (with the skip's) and the
// output channels, times the pixels. A is the axis of the level's stream, B the other axis:
//   residual   3 i/A + 3 o/B   inputs of both norms, of both SiLUs and of both convolutions;
//                              scale-shift: o/B more; dropout: its mask, o/B
//   attention  2 i/A + 4 i/B   input and output of the norm; q, k, v and the mixed values;
//                              sums of the exponentials, pixels heads/B; with divided rows of
//                              queries, (pixels heads + i)/(A B): own outputs too
//   down, up   i/A, 4 i/A      input of the convolution
//   last       3 i/Y
// Skips are included: they are inputs of later layers. logits: 3 output images. block: the
// gradients that exist at once in the stage that needs most. Left out: the time embedding, and the
// workspace of cuDNN. Blocks are the stages between the first convolution and the last norm. A
// checkpointed one keeps only its input, i/A. The largest whole list counts once more, for the
// block that is run again.
MemoryPrediction predict_memory(const UnetShape& shape, const GridShape& grid, const MemoryOptions& options);

// predict_memory() of a UNet. The part that does not depend on the grid is done only once: a search
// tries hundreds of grids.
class UnetMemory {
 public:
  explicit UnetMemory(const UnetShape& shape);
  MemoryPrediction predict(const GridShape& grid, const MemoryOptions& options) const;

 private:
  using ByAxis = std::array<int64_t, 2>;  // elements per image, divided by x and by y

  void add(const UnetStage& stage);
  void add_weight(Axis from, int64_t in, int64_t out, int64_t taps);  // with its bias
  void add_tensor(ShardSpec spec);
  void add_vector(Axis axis, int64_t size) { add_tensor({.dims = {Dim::split(size, axis)}}); }
  template <typename OnRank>
  int64_t activation_elements(const GridShape& grid, const MemoryOptions& options, const OnRank& on_rank) const;

  // The elements that a stage keeps for backward.
  struct Kept {
    ByAxis input{};    // all that a checkpointed stage keeps
    ByAxis all{};      // including the input
    ByAxis dropped{};  // in addition, with dropout
    // In addition, of the rows of queries that a rank attends: sums of exponentials; outputs, kept
    // beside those of all rows where ranks divide them.
    ByAxis sums{}, mixed{};

    // All of them. Rows are divided over the axis that does not split the heads.
    ByAxis of(const GridShape& grid, const MemoryOptions& options) const;
  };
  void keep(Axis axis, int64_t elements) { kept_.back().all[static_cast<size_t>(axis)] += elements; }

  UnetShape shape_;
  std::vector<StoredTensors> tensors_;
  std::vector<Kept> kept_;        // in stage order; without the first convolution, whose images are not counted
  std::vector<ByAxis> backward_;  // temporaries that exist at the same time
};

}  // namespace axonn
