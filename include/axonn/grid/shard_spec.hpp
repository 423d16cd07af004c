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

// Every rank's range of a block starts at a multiple of this number of elements. It is 64 bytes of
// the narrowest type, so buffers of all types share one layout.
inline constexpr int64_t kRangeAlignment = 32;

// Part `index` of `parts` parts of `size` indices, as even as possible:
// [size*index/parts, size*(index+1)/parts).
Range even_part(int64_t size, int parts, int index);

// Consecutive indices of a tensor's dim that are sharded over one axis or replicated: q, k and v of
// a fused projection are three segments.
struct Segment {
  int64_t size = 0;          // without padding
  std::optional<Axis> axis;  // nothing: replicated
  // 0: even parts. Otherwise every rank of the axis holds as many indices as the others, a multiple
  // of `tile`, and the padding is at the end: the vocabulary.
  int64_t tile = 0;
  bool operator==(const Segment&) const = default;
};

// One dim of a tensor: its segments in order. All of them are sharded over the same axis, or all
// are replicated. Anything else is a UserError: in a mixture some elements would be held once and
// others many times, so no rule for gradients and norms would fit both.
struct Dim {
  std::vector<Segment> segments;

  static Dim whole(int64_t size) { return {{Segment{.size = size}}}; }
  static Dim split(int64_t size, Axis axis) { return {{Segment{.size = size, .axis = axis}}}; }
  // From 4096 indices on in tiles of 128, and below in tiles of 1: a GPU's products of the block
  // then have no ragged edge, and all of its rows are aligned.
  static Dim padded(int64_t size, Axis axis) {
    return {{Segment{.size = size, .axis = axis, .tile = size < 4096 ? 1 : 128}}};
  }

  int64_t size() const;                                                    // global, without padding
  std::optional<Axis> axis() const;                                        // axis of all segments; nothing: replicated
  int64_t local_size(const GridShape& shape, const Coordinate& at) const;  // with padding
  // The ranges that the local dim holds, in order: where each starts locally, and its global
  // indices. None is empty and none holds padding; segments that follow each other both locally
  // and globally are one range.
  struct LocalRange {
    int64_t local_begin = 0;
    Range global;
  };
  std::vector<LocalRange> local_ranges(const GridShape& shape, const Coordinate& at) const;
  bool operator==(const Dim&) const = default;
};

// The place of each element of one trainable tensor. The dims give a rank's (X, Y) block. The
// block, row-major and flattened, is sharded over Z into ranges when `over_z`, and otherwise
// replicated over Z. The tensor is replicated over every axis that is not named, and always over
// data. Initialisation, gradient reduction, norms, checkpoints and resharding derive only from
// this. Dims are sharded over X or Y, and each axis shards at most one dim. Anything else is a
// UserError from every call that needs the block.
struct ShardSpec {
  std::vector<Dim> dims;
  bool over_z = false;

  std::vector<int64_t> global_shape() const;
  int64_t global_numel() const;
  std::vector<int64_t> block_shape(const GridShape& shape, const Coordinate& at) const;
  int64_t block_numel(const GridShape& shape, const Coordinate& at) const;

  // Elements of one stored Z range: ceil(block / z) when over_z, else the block; rounded up to a
  // multiple of `align`. The same on every Z rank, so that the gather over Z is even. Stored
  // elements past the block's end are padding: zero and never visible.
  int64_t range_numel(const GridShape& shape, const Coordinate& at, int64_t align) const;
  // This rank's range of the flattened block, clipped to the block. Empty when the range is only
  // padding.
  Range block_range(const GridShape& shape, const Coordinate& at, int64_t align) const;

  // The axes along which all ranks hold the same elements. Data is always one of them.
  AxisSet replicated_axes() const;
  bool uses(Axis axis) const;

  std::string to_string() const;  // "[50257/x(padded to 128), 768/y] over z", for --dry-run and errors
  bool operator==(const ShardSpec&) const = default;
};

// A maximal range of elements that are consecutive both in a rank's block and in the global tensor
// (row-major).
struct MappedRange {
  int64_t local_begin = 0;   // offset in the flattened block
  int64_t global_begin = 0;  // offset in the flattened global tensor
  int64_t size = 0;
};

// `range` of the rank's flattened block as mapped ranges, ascending in local_begin, without
// padding. Together, over all coordinates that differ in the sharding axes, they cover every global
// element exactly once.
std::vector<MappedRange> mapped_ranges(const ShardSpec& spec, const GridShape& shape, const Coordinate& at,
                                       Range range);

}  // namespace axonn
