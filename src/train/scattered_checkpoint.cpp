#include "axonn/train/scattered_checkpoint.hpp"

#include <optional>
#include <utility>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/each_reads.hpp"
#include "axonn/comm/same_file.hpp"
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
  std::optional<CheckpointReader> reader;
  each_rank_reads(optimizer.ranks(), [&] { reader.emplace(directory); });
  check_same_file(optimizer.ranks(), {reader->directory() / "manifest.json", "checkpoint", "load_checkpoint()"});
  all_ranks_or_none(optimizer.ranks(), [&] {
    reader->load(optimizer.grid().shape(), optimizer.grid().coordinate(optimizer.ranks().rank()),
                 checkpoint_tensors(optimizer));
  });
  optimizer.state_changed();
  optimizer.set_steps_taken(reader->state().updates());
  return reader->state();
}

}  // namespace axonn
