#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"

namespace axonn {

// A half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Every rank's range of a block starts at a multiple of so many elements: 64 bytes of the narrowest type, so that buffers of all types share
// one layout.
inline constexpr int64_t kRangeAlignment = 32;

// Part `index` of `parts` of `size` indices, as even as can be: [size*index/parts, size*(index+1)/parts).
Range even_part(int64_t size, int parts, int index);

// A run of consecutive indices of a tensor's dim that is split over one axis, or kept whole: q, k and v of a fused projection are three.
struct Segment {
  int64_t size = 0;            // without padding
  std::optional<Axis> axis;    // nothing: whole on every rank
  bool padded = false;         // true: every rank holds ceil(size / axis size) rows, the last ones partly padding (the vocabulary)
  bool operator==(const Segment&) const = default;
};

// One dim of a tensor: its segments one after the other, all split over the same axis or all whole (a mixture would be held once in one
// part and many times in the other, and no rule for gradients and norms could be right for both). Anything else is a UserError.
struct Dim {
  std::vector<Segment> segments;

  static Dim whole(int64_t size) { return {{Segment{.size = size}}}; }
  static Dim split(int64_t size, Axis axis) { return {{Segment{.size = size, .axis = axis}}}; }
  static Dim padded(int64_t size, Axis axis) { return {{Segment{.size = size, .axis = axis, .padded = true}}}; }

  int64_t size() const;                                                    // global, without padding
  std::optional<Axis> axis() const;                                        // that the segments are split over; nothing: whole
  int64_t local_size(const GridShape& shape, const Coordinate& at) const;  // with padding
  // The pieces of the local dim in order: where each starts locally, and which global indices it holds. Padding is in none, none is empty,
  // and segments that follow each other both locally and globally are one piece.
  struct Piece {
    int64_t local_begin = 0;
    Range global;
  };
  std::vector<Piece> pieces(const GridShape& shape, const Coordinate& at) const;
  bool operator==(const Dim&) const = default;
};

// Where the elements of one trainable tensor live (design: "one descriptor per parameter"). The dims give the (X, Y) block of a rank; the
// block, row-major and flattened, is cut over Z into ranges when `over_z`, else whole on every Z rank. Replicated over every axis not
// named, and always over data. Initialisation, gradient reduction, norms, checkpoints and resharding derive from this and nothing else.
// Dims are split over X or Y, each axis by one dim at most; another split is a UserError from every call that needs the block.
struct ShardSpec {
  std::vector<Dim> dims;
  bool over_z = false;

  std::vector<int64_t> global_shape() const;
  int64_t global_numel() const;
  std::vector<int64_t> block_shape(const GridShape& shape, const Coordinate& at) const;
  int64_t block_numel(const GridShape& shape, const Coordinate& at) const;

  // Elements of one Z range as stored: ceil(block / z) rounded up to a multiple of `align` elements when over_z, else the block rounded up.
  // The same on every Z rank, so that the gather over Z is even; the stored elements past the block's end are padding (zero, never seen).
  int64_t range_numel(const GridShape& shape, const Coordinate& at, int64_t align) const;
  // This rank's range of the flattened block, clipped to the block; empty when the range is padding alone.
  Range block_range(const GridShape& shape, const Coordinate& at, int64_t align) const;

  // Of X, Y and (unless over_z) Z: the axes along which every rank holds the same elements. Data is always among them.
  AxisSet replicated_axes() const;
  bool uses(Axis axis) const;

  std::string to_string() const;  // "[50257/x(padded), 768/y] over z", for --dry-run and errors
  bool operator==(const ShardSpec&) const = default;
};

// A maximal run of elements that are consecutive both in the block of a rank and in the global tensor (row-major).
struct Run {
  int64_t block_begin = 0;   // offset in the flattened block
  int64_t global_begin = 0;  // offset in the flattened global tensor
  int64_t size = 0;
};

// The runs of `range` of the rank's flattened block, ascending in block_begin; padding is left out. Together, over all coordinates that
// differ in the sharding axes, they cover every global element exactly once.
std::vector<Run> runs(const ShardSpec& spec, const GridShape& shape, const Coordinate& at, Range range);

}  // namespace axonn
