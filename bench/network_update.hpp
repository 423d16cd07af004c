#pragma once

#include <memory>

#include "axonn/overlap/execute/update_executor.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace axonn::bench {

// The update of a network's weights over all ranks, which are replicas. The gradients of the arena
// stay what they are, apart from their sums.
class NetworkUpdate {
 public:
  NetworkUpdate(Environment& environment, const Grid& grid, std::shared_ptr<Arena> arena,
                const overlap::UpdateProgram& program, UpdateSchedule schedule, OverlapPolicy policy = {});

  void step();
  Arena& arena() const { return *arena_; }

 private:
  Communicators communicators_;
  Scheduler scheduler_;
  std::shared_ptr<Arena> arena_;
  NetworkSchedule& schedule_;
  overlap::UpdateExecutor executor_;
  int64_t number_ = 0;
};

}  // namespace axonn::bench
