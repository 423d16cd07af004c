#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "axonn/comm/communicator.hpp"
#include "checkpoint/read/part_bytes.hpp"
#include "checkpoint/read/read_plan.hpp"

namespace axonn {

// Bytes of a message, and ranks that read at the same time, each with two buffers on every rank.
inline constexpr int64_t kReadMessageBytes = int64_t{2} << 20;
inline constexpr int kMostReaders = 8;

// The member of a group that reads part `number` of its list.
inline int reader_of(size_t number, int members) {
  return static_cast<int>(number % static_cast<size_t>(std::min(members, kMostReaders)));
}

// The greatest numbers of all ranks of a grid. Collective. It goes along one axis after the other,
// in small groups: over all ranks at once, some hundred bytes would take a ring of them.
std::vector<uint8_t> greatest(const ReplicaGroups& groups, const GridShape& shape, std::vector<uint8_t> mine);

// Reads parts by the ranks of a group, each part by one of them, in turns, and sends all of them
// what any wants. Collective, with the same parts in the same order. A rank that fails goes on
// sending, so that no other waits for it, and returns its first error.
std::exception_ptr read_together(Communicator& group, PartFiles& files, std::span<const PartToRead> parts);

}  // namespace axonn
