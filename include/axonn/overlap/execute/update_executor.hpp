#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/coconet/update/update_program.hpp"
#include "axonn/comm/communicators.hpp"
#include "axonn/overlap/step/network_schedule.hpp"

namespace axonn {

class UpdateSteps;

// The network that is updated, and the ranks that hold it. All outlive the executor.
struct UpdatedNetwork {
  Arena& arena;
  NetworkSchedule& schedule;
  Communicators& communicators;
  const Grid& grid;
  int rank = 0;
  std::shared_ptr<void> kept = {};  // keeps them
};

// Runs an optimizer's program on one network, on CPUs (CoCoNet, section 4). Gradients and weights
// are the arena's; state is the executor's, whole or the rank's own part, as the schedule says.
//
// Parameters that are sharded over Z have one replica per data rank, the others one per Z and data
// rank. The replicas of an element share it: BlockOwners says who updates it. Reductions of the
// program are over the whole network: each rank reduces the elements that it owns, and one
// all-reduce over the whole grid follows. So all schedules give the same bits.
//
// Per step of the scheduler: set() the numbers, gradient_norm(), then update() or nothing. If the
// schedule updates with the sums, the numbers are needed earlier: set() them and prepare() before
// the first backward pass; then an update is certain. Every rank of the grid makes the same calls.
class UpdateExecutor {
 public:
  // `scheduled`: the program after the transformations of UpdateProgram::scheduled(). UserError
  // that names what it cannot run.
  UpdateExecutor(const coconet::UpdateProgram& program, const coconet::Program& scheduled, UpdatedNetwork network,
                 const coconet::RunSettings& settings = {},
                 coconet::InstructionSet instruction_set = coconet::best_instruction_set());
  ~UpdateExecutor();
  UpdateExecutor(const UpdateExecutor&) = delete;
  UpdateExecutor& operator=(const UpdateExecutor&) = delete;

  void set(std::string_view scalar, double value);  // keeps its value until set again
  // The numbers of a declared tensor [T, 1], by ArenaSlot::number.
  void set_rows(std::string_view tensor, std::span<const double> values);

  // Whether the sums of gradients and the update are one pass: weights change during backward.
  bool updates_with_sums() const;
  // The numbers of this step are set. UserError from backward if it is needed and was not called.
  void prepare();

  // After Scheduler::finish(). The program's gradient_norm; NaN if this or another rank's gradients
  // are `poisoned`.
  double gradient_norm(bool poisoned);
  // After gradient_norm(). Weights that other ranks update are valid after
  // NetworkSchedule::wait_for_weights(), and the forward pass waits for each by itself; those of a
  // scattered arena are valid when it returns.
  void update();

  // The master weights were changed by others, such as a checkpoint: the network's weights follow.
  void master_changed();
  // All elements of a tensor of the state become this number.
  void fill(std::string_view tensor, double value);
  // Copies the master weights to another tensor of the state.
  void copy_master_to(std::string_view tensor);
  // Exchanges the master weights with another tensor of the state; the network's weights follow.
  void exchange_master(std::string_view tensor);

  struct State {
    std::string name;   // the tensor's in the program
    at::Tensor tensor;  // flat: laid out as the arena, or only this rank's elements; undefined for
                        // weights that are scattered
    bool own = false;   // only this rank's elements, the arena's regions one after the other
  };
  // Master weights, then the program's state. They are valid after wait_for_weights().
  std::vector<State> state() const;

  const coconet::SchedulePlan& plan() const;

 private:
  std::shared_ptr<UpdateSteps> steps_;  // collectives that are under way hold them, too
};

}  // namespace axonn
