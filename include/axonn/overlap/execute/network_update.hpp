#pragma once

#include <memory>

#include "axonn/overlap/execute/update_executor.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace axonn {

// The update of weights without a network, to measure it: the step of a scheduled program, from the
// gradients of the arena to weights that are there. The ranks are a grid; every rank makes one and
// calls step() as often. The gradients stay what they are, apart from their sums.
class NetworkUpdate {
 public:
  // Communicators and grid outlive it.
  NetworkUpdate(Communicators& communicators, const Grid& grid, int rank, std::shared_ptr<Arena> arena,
                const coconet::UpdateProgram& program, const coconet::Program& scheduled,
                const coconet::RunSettings& settings = {}, const OverlapPolicy& policy = {});

  void step();
  Arena& arena() const { return *arena_; }

 private:
  Scheduler scheduler_;
  std::shared_ptr<Arena> arena_;
  NetworkSchedule& schedule_;
  UpdateExecutor executor_;
  bool numbered_;
  int64_t number_ = 0;
};

}  // namespace axonn
