#include "axonn/train/scattered_checkpoint.hpp"

#include <utility>

#include "train/arena_tensors.hpp"

namespace axonn {

std::vector<CheckpointTensor> checkpoint_tensors(const ScatteredOptimizer& optimizer) {
  return arena_tensors(optimizer.arena(), optimizer.grid(), optimizer.state());
}

std::filesystem::path save_checkpoint(const ScatteredOptimizer& optimizer, const std::filesystem::path& directory,
                                      CheckpointState state) {
  state.step = optimizer.steps_taken();
  const CheckpointWriter writer(optimizer.grid(), optimizer.ranks(), {.directory = directory});
  return writer.save(state, checkpoint_tensors(optimizer));
}

CheckpointState load_checkpoint(ScatteredOptimizer& optimizer, const std::filesystem::path& directory) {
  const CheckpointReader reader(optimizer.ranks(), directory);
  reader.load([&](AxisSet) -> Communicator& { return optimizer.ranks(); }, optimizer.grid().shape(),
              optimizer.grid().coordinate(optimizer.ranks().rank()), checkpoint_tensors(optimizer));
  optimizer.state_changed();
  optimizer.set_steps_taken(reader.state().updates());
  return reader.state();
}

}  // namespace axonn
