#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/scattered_tensors.hpp"
#include "axonn/grid/shard_spec.hpp"
#include "axonn/overlap/step/owned_region.hpp"

namespace axonn {

// One parameter's place in the arena of a rank. Offsets and sizes are in elements.
struct ArenaSlot {
  std::string name;
  ShardSpec spec;
  bool decay = false;                // whether the optimizer decays it
  int64_t offset = 0;                // begin of this rank's range in the arena
  int64_t stored = 0;                // elements of the range with its padding; equal on all Z ranks
  std::vector<int64_t> block_shape;  // the (X, Y) block
  std::vector<int64_t> counts;       // elements of each Z rank, without padding; one entry when replicated over Z
  Range range;                       // this rank's part of the flattened block
  bool counts_in_norm = false;       // true on only one of the ranks that hold the same elements, per data index

  int number = 0;     // index in Arena::slots()
  int bundle = 0;     // index in Arena::bundles()
  int64_t place = 0;  // the block's begin in its unpacked bundle
  bool sharded_over_z() const { return counts.size() > 1; }
};

// Parameters that are gathered over Z, and whose gradients are reduce-scattered, by one collective.
// Most bundles have one. The collective's buffer holds the ranges of all Z ranks, one after the
// other. The blocks of several parameters are not contiguous in it: unpacked they follow one
// another, each with padding.
struct ArenaBundle {
  std::string name;        // its first parameter's
  std::vector<int> slots;  // in arena order
  Range range;  // this rank's part of the arena, as it sends it; that of several parameters has their padding
  std::vector<int64_t> counts;  // elements of each Z rank in the buffer; one entry when replicated over Z
  Range own;                    // this rank's elements of the buffer
  bool single() const { return slots.size() == 1; }
  int64_t numel() const;  // elements of the buffer, and those of the unpacked bundle
};

// A range of an arena whose elements are updated alike. It may have no elements.
struct ArenaSection {
  bool over_z = false;
  bool decay = false;
  Range range;
};

// Element types of an arena's buffers. Layers compute with `weights`; the optimizer works on
// `master`.
struct ArenaTypes {
  at::ScalarType weights = at::kFloat;
  at::ScalarType gradients = at::kFloat;
  at::ScalarType master = at::kFloat;
};

// The buffers of an arena: for training, for parameters without gradients, or only its layout.
enum class ArenaBuffers : uint8_t { all, weights, none };

// A weight that lies in a tensor of the user's, with its gradient. It has elements.
struct PlacedWeight {
  std::string name;
  bool decay = false;
  at::Tensor weight, gradient;
};

// The parameters of one network on one rank, in flat buffers of equal layout: weight shards, master
// weights and gradient shards. First come those that are sharded over Z, then those that are
// replicated over it. Each of the two has a section with decay, then one without; so has a bundle
// of several parameters, in turn with decay first and last, so that neighbours share a section.
// Inside a section the order is the reverse of registration, roughly the order in which backward
// finishes gradients. Padding is always zero.
class Arena {
 public:
  struct Entry {
    std::string name;
    ShardSpec spec;
    bool decay = false;
    int bundle = -1;  // entries of one number are a bundle where they are sharded over Z; -1: none
  };
  // Computes the layout and allocates the buffers, filled with zeros.
  Arena(const std::vector<Entry>& entries, const Grid& grid, int rank, ArenaTypes types, c10::Device device,
        ArenaBuffers buffers = ArenaBuffers::all);
  // Weights and gradients stay in the tensors where they are (ScatteredTensors), each in whole
  // buckets. Every rank of the grid holds all of them, so nothing is sharded over X, Y or Z. There
  // are no master weights. UserError of ScatteredTensors.
  Arena(const std::vector<PlacedWeight>& weights, const Grid& grid, int rank);

  int64_t size() const { return size_; }
  std::vector<ArenaSlot>& slots() { return slots_; }  // in the order of `entries`
  const std::vector<ArenaSlot>& slots() const { return slots_; }
  const std::vector<ArenaBundle>& bundles() const { return bundles_; }     // in the order of their first entries
  const std::vector<ArenaSection>& sections() const { return sections_; }  // in arena order
  // The part that is sharded over Z, which every data rank holds, and the rest, which every Z and
  // data rank holds. Without those that are empty, in ascending order.
  const std::vector<OwnedRegion>& regions() const { return regions_; }
  bool is_scattered() const { return scattered_weights_ != nullptr; }
  const ArenaTypes& types() const { return types_; }
  // Null unless scattered. The table of weights is numbered in the order of their places.
  const std::shared_ptr<const ScatteredTensors>& scattered_weights() const { return scattered_weights_; }
  const std::shared_ptr<const ScatteredTensors>& scattered_gradients() const { return scattered_gradients_; }
  bool has_gradients() const { return gradients_.defined() || is_scattered(); }
  // The flat buffers; undefined when scattered.
  const at::Tensor& weights() const { return weights_; }
  const at::Tensor& gradients() const { return gradients_; }
  const at::Tensor& master() const;                      // weights() itself when their types are equal
  bool has_master() const { return master_.defined(); }  // false: released, or scattered
  void round_master();                                   // master() -> weights()
  // Frees master weights of another type than the weights: an optimizer keeps them from now on, or
  // nobody needs them.
  void release_master() { master_ = at::Tensor(); }
  Range over_z() const { return over_z_; }          // all sections that are sharded over Z
  Range replicated() const { return replicated_; }  // all sections that are replicated over Z

  at::Tensor weight(const ArenaSlot& slot) const;  // the stored range without padding, flat
  at::Tensor gradient(const ArenaSlot& slot) const;

 private:
  void lay_out(const std::vector<Entry>& entries, const Grid& grid, int rank, int64_t alignment);
  void place(bool over_z, int bundle);
  void describe(ArenaBundle& bundle, int z);

  std::vector<ArenaSlot> slots_;
  std::vector<ArenaBundle> bundles_;
  std::vector<ArenaSection> sections_;
  Range over_z_, replicated_;
  std::vector<OwnedRegion> regions_;
  int64_t size_ = 0;
  ArenaTypes types_;
  std::shared_ptr<const ScatteredTensors> scattered_weights_, scattered_gradients_;
  at::Tensor weights_;
  at::Tensor gradients_;
  at::Tensor master_;
};

}  // namespace axonn
