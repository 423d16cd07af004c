#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "axonn/grid/grid.hpp"

namespace axonn {

// Memory that the ranks of one node share. Each rank writes its own region and reads those of the
// others. A region is address space: pages cost memory when they are first written. It holds one
// window for every queue that its rank has used, found by the queue's channel.
class NodeMemory {
 public:
  static constexpr size_t kRegionBytes = size_t{4} << 30;

  struct Member {
    int rank = 0;                 // rank in the job
    std::byte* region = nullptr;  // kRegionBytes, zero at first; written only by its own rank
  };
  // `mappings` keeps the regions mapped.
  NodeMemory(int own_rank, std::vector<Member> members, std::shared_ptr<void> mappings);

  bool spans(const Group& group) const;  // whether all of the group's ranks are here

  // This rank's window for a channel, made at the first call. Later calls must not ask for more
  // bytes.
  std::byte* own_window(uint32_t channel, size_t bytes);

  // Another rank's window; null until that rank has made it.
  const std::byte* window(int rank, uint32_t channel) const;

 private:
  struct Directory;
  const std::byte* region(int rank) const;

  const int own_rank_;
  const std::vector<Member> members_;
  const std::shared_ptr<void> mappings_;
  std::mutex mutex_;  // guards used_ and this rank's directory
  size_t used_;
};

// Maps a region: anonymous memory when `file` is -1, else the open file, read-only unless
// `writable`. BackendError when the system refuses.
std::shared_ptr<std::byte> map_region(int file = -1, bool writable = true);

}  // namespace axonn
