#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// One parameter's place in the arena of a rank. Offsets and sizes are in elements.
struct ArenaSlot {
  std::string name;
  ShardSpec spec;
  bool decay = false;                // whether the optimizer decays it
  int64_t offset = 0;                // of this rank's range in the arena
  int64_t stored = 0;                // elements of the range with its padding; equal on all Z ranks
  std::vector<int64_t> block_shape;  // of the (X, Y) block
  std::vector<int64_t> counts;       // elements of the block held by each Z rank, without padding; one entry when replicated over Z
  Range range;                       // of the flattened block, held here
  bool counts_in_norm = false;       // true on one rank of those that hold the same elements, within one data index

  int number = 0;  // in Arena::slots()
  bool sharded_over_z() const { return counts.size() > 1; }
};

// A range of an arena that is reduced or updated as one.
struct ArenaSection {
  bool over_z = false;
  bool decay = false;
  Range range;
};

// Element types of an arena's buffers. Layers compute with `weights`; the optimizer works on `master`.
struct ArenaTypes {
  at::ScalarType weights = at::kFloat;
  at::ScalarType gradients = at::kFloat;
  at::ScalarType master = at::kFloat;
};

// The parameters of one network on one rank, laid out flat (design, section 9): weight shards, master weights and gradient shards in
// buffers of equal layout. Sections in order: over Z decayed, over Z undecayed, replicated over Z decayed, replicated over Z undecayed;
// inside a section the reverse of registration, which is about the order in which backward finishes gradients. Padding is zero always.
class Arena {
 public:
  struct Entry {
    std::string name;
    ShardSpec spec;
    bool decay = false;
  };
  // Lays out and, unless `plan_only`, allocates (zeros).
  Arena(const std::vector<Entry>& entries, const Grid& grid, int rank, ArenaTypes types, c10::Device device, bool plan_only = false);

  int64_t size() const { return size_; }
  std::vector<ArenaSlot>& slots() { return slots_; }  // in the order of `entries`
  const std::vector<ArenaSlot>& slots() const { return slots_; }
  const std::vector<ArenaSection>& sections() const { return sections_; }
  const at::Tensor& weights() const { return weights_; }
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& master() const { return master_; }  // weights() itself when their types are equal
  void round_master();                                  // master() -> weights()
  Range over_z() const;                                 // everything that is cut over Z
  Range replicated() const;                             // everything that is whole on every Z rank

  at::Tensor weight(const ArenaSlot& slot) const;  // the stored range without padding, flat
  at::Tensor gradient(const ArenaSlot& slot) const;

 private:
  std::vector<ArenaSlot> slots_;
  std::vector<ArenaSection> sections_;
  int64_t size_ = 0;
  at::Tensor weights_;
  at::Tensor gradients_;
  at::Tensor master_;
};

}  // namespace axonn
