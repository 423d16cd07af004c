#pragma once

#include <functional>
#include <vector>

#include "axonn/overlap/execute/update_executor.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "overlap/execute/arena_memory.hpp"

namespace axonn {

// Elements of a region whose weights are gathered by one message.
struct UpdateChunk {
  const UpdateRegion* region = nullptr;
  Range range;
};

// The weights of a network beside the master weights and the state of its program: who stores which
// elements, and how they come to the other ranks. All functions are collective.
class UpdateWeights {
 public:
  // The arena's memory becomes the program's. `weights` and `master`: the program's tensors.
  UpdateWeights(const UpdatedNetwork& network, ArenaMemory& memory, coconet::BufferId weights, coconet::BufferId master,
                int64_t segment_bytes);

  bool stores_own(coconet::BufferId tensor) const;
  // The elements of a state tensor that this rank stores, beside the master weights.
  void for_each_stored(coconet::BufferId tensor,
                       const std::function<void(const at::Tensor&, const at::Tensor&)>& visit);
  // Master weights -> weights; `of_owners`: only own ones are right, so the others' are gathered.
  void publish(bool of_owners);

  // The regions that several ranks hold, in portions as large as gradient buckets, cut at the
  // owners' blocks, in the order in which the forward pass needs their first parameters. One
  // portion per region when the policy has no buckets.
  std::vector<UpdateChunk> chunks() const;
  WrittenRange gather(const ArenaMemory::Buffer& buffer, const UpdateChunk& chunk, Epilogue epilogue);
  void hand_over(std::vector<WrittenRange> ranges);

  coconet::BufferId weights() const { return weights_; }
  coconet::BufferId master() const { return master_; }

 private:
  using Visit = std::function<void(const UpdateRegion&, Range)>;
  void for_each_own(const Visit& visit) const;
  void for_each_element(const Visit& visit) const;
  void bind();
  // Copies a range from one buffer to another.
  void copy(const ArenaMemory::Buffer& from, const ArenaMemory::Buffer& to, const UpdateRegion& region, Range range);

  UpdatedNetwork network_;
  Scheduler& scheduler_;
  ArenaMemory& memory_;
  coconet::BufferId weights_, master_;
  int64_t segment_bytes_;
};

}  // namespace axonn
