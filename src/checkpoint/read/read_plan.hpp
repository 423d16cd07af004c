#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/read/part_bytes.hpp"
#include "checkpoint/read/part_search.hpp"
#include "checkpoint/shards/placed_parts.hpp"

namespace axonn {

// Bytes of a file, and their place in a shard of this rank.
struct WantedBytes {
  int64_t begin = 0, size = 0;
  std::byte* into = nullptr;
};

// A part that is read once, for all of its tensors.
struct PartToRead {
  size_t part = 0;
  std::vector<WantedBytes> wanted;  // ascending
  std::vector<Range> sent;          // bytes that any rank of the group wants, ascending; none: by one rank
};

// One tensor to fill.
struct ReadTarget {
  const CheckpointTensor* tensor = nullptr;
  at::Tensor host;
  std::vector<PlacedPart> placed;
  int64_t missing = 0;  // elements
};

// The bytes of a checkpoint that a rank reads, or gets from ranks that hold the same elements.
class ReadPlan {
 public:
  // `together`: ranks that hold the same elements read them together. Directory and manifest
  // outlive it.
  ReadPlan(const std::filesystem::path& directory, const Manifest& manifest, const GridShape& shape,
           const Coordinate& at, bool together);

  void add(size_t index, ReadTarget& target);  // tensor `index` of the manifest; the target outlives it
  // A number per added tensor: 0 where this rank needs only the part that it would have written,
  // else 1. A tensor that is 1 on any rank is so on all: then ranks of its cut read together too.
  std::vector<uint8_t> shared() const;
  // When all are added, with the greatest numbers of all ranks. UserError if a part does not hold
  // what the manifest says, or all parts together do not hold a tensor.
  void finish(const std::vector<uint8_t>& shared);

  const std::vector<PartToRead>& alone() const { return alone_; }
  // By the axes along which the ranks of the group hold the same elements, in an order that all
  // ranks of the grid share. The parts are the same on all ranks of such a group; only `wanted` is
  // each rank's own.
  struct Together {
    AxisSet axes;
    std::vector<PartToRead> parts;
  };
  const std::vector<Together>& together() const { return together_; }

 private:
  struct Asked {
    size_t index = 0;
    ReadTarget* target = nullptr;
    std::optional<std::vector<size_t>> own;  // see PartSearch::own_part()
    AxisSet together;                        // the group; none: read by this rank itself
    std::vector<PlacedPart> of_group;        // the elements that its ranks hold
  };
  // The first byte of each tensor in a part.
  class Begins;

  void find_parts(size_t number, bool shared);
  void add_tensor(PartToRead& read, const Asked& asked, std::optional<Begins>& begins);

  const std::filesystem::path& directory_;
  const Manifest& manifest_;
  GridShape shape_;
  Coordinate at_;
  bool reads_together_;
  PartSearch search_;
  std::vector<Asked> asked_;
  std::map<std::pair<uint8_t, size_t>, std::vector<size_t>> asked_of_;  // by axes (0: by itself) and part
  std::vector<PartToRead> alone_;
  std::vector<Together> together_;
};

// Copies bytes of a file to where they are wanted, as they come, from the first to the last.
class Delivery {
 public:
  explicit Delivery(std::span<const WantedBytes> wanted) : wanted_(wanted) {}
  void take(const FilePiece& piece);

 private:
  std::span<const WantedBytes> wanted_;
  size_t next_ = 0;  // those before it are complete
};

}  // namespace axonn
