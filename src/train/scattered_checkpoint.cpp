#include "axonn/train/scattered_checkpoint.hpp"

#include <utility>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "train/arena_tensors.hpp"

namespace axonn {

std::vector<CheckpointTensor> checkpoint_tensors(const ScatteredOptimizer& optimizer) {
  return arena_tensors(optimizer.arena(), optimizer.grid(), optimizer.state());
}

std::filesystem::path save_checkpoint(const ScatteredOptimizer& optimizer, const std::filesystem::path& directory,
                                      CheckpointState state) {
  state.step = optimizer.steps_taken();
  const CheckpointWriter writer(optimizer.grid(), optimizer.ranks().rank(),
                                {.directory = directory, .barrier = [&] { optimizer.ranks().barrier().wait(); }});
  return writer.save(state, checkpoint_tensors(optimizer));
}

CheckpointState load_checkpoint(ScatteredOptimizer& optimizer, const std::filesystem::path& directory) {
  CheckpointState state;
  all_ranks_or_none(optimizer.ranks(), [&] {
    const CheckpointReader reader(directory);
    reader.load(optimizer.grid().shape(), optimizer.grid().coordinate(optimizer.ranks().rank()),
                checkpoint_tensors(optimizer));
    state = reader.state();
  });
  optimizer.state_changed();
  optimizer.set_steps_taken(state.updates());
  return state;
}

}  // namespace axonn
