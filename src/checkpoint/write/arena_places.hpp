#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// The places in the arenas of all ranks at which the ranges of cut tensors begin. Many ranks have
// the same, so each list is sent only once.
struct ArenaPlaces {
  std::vector<size_t> list_of;              // by rank: index in `lists`
  std::vector<std::vector<int64_t>> lists;  // on rank 0: a number per tensor, -1 if it is not cut
};

// The hash of this rank's places, for collect_places().
uint64_t hash_of_places(std::span<const CheckpointTensor> tensors);

// Collective. `hashes` are those of rank 0, 1, ...
ArenaPlaces collect_places(Communicator& everyone, std::span<const CheckpointTensor> tensors,
                           const std::vector<uint64_t>& hashes);

// UserError if ranks of one cut's group have different places. On rank 0.
void check_places(const ArenaPlaces& places, const Grid& grid, std::span<const CheckpointTensor> tensors);

}  // namespace axonn
