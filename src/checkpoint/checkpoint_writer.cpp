#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/history.hpp"
#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "checkpoint/checkpoint_save.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/shards/held_range.hpp"
#include "checkpoint/shards/saved_range.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

bool is_of_run(const fs::path& directory, const std::string& run) {
  try {
    return read_manifest(directory).state.run == run;
  } catch (const UserError&) {
    return false;
  }
}

// Rank 0 only: what it looks up on a network file system, it may see late afterwards.
void check_free(const fs::path& directory, const std::string& run) {
  if (!fs::exists(directory)) return;
  std::string other;
  try {
    other = read_manifest(directory).state.run;
  } catch (const UserError&) {  // not whole: it may go
    return;
  }
  AXONN_CHECK(other == run, "checkpoint.save", directory.string(),
              " is a whole checkpoint of another run and is not overwritten; choose another directory, or resume "
              "that run");
}

void check_tensors(const Grid& grid, const Coordinate& at, std::span<const CheckpointTensor> tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    AXONN_CHECK(!tensor.name.empty() && names.insert(tensor.name).second, "checkpoint.save", "tensor name '",
                tensor.name, "' is empty or used twice");
    check_shard(tensor, grid.shape(), at, "checkpoint.save");
    if (const auto& cut = tensor.cut; cut)
      AXONN_CHECK(cut->axes == CheckpointCut::over(grid, cut->axis_set()).axes, "checkpoint.save", "the cut of ",
                  tensor.name, " over ", cut->to_string(), " must name its axes in the grid's order, ",
                  to_string(grid.order()));
    safetensors::dtype_name(tensor.shard.scalar_type());
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(const Grid& grid, Communicator& everyone, Options options)
    : grid_(grid.shape(), grid.order()), everyone_(everyone), options_(std::move(options)) {
  AXONN_CHECK(options_.keep >= 1, "checkpoint.save", "at least 1 checkpoint is kept, got ", options_.keep);
  AXONN_CHECK(everyone.size() == grid.ranks(), "checkpoint.save", "the grid has ", grid.ranks(),
              " ranks, the communicator ", everyone.size());
}

fs::path CheckpointWriter::path_of(const CheckpointState& state) const {
  return options_.directory / step_name(state.step);
}

int64_t CheckpointWriter::bytes_of(std::span<const CheckpointTensor> tensors) const {
  const Coordinate at = grid_.coordinate(everyone_.rank());
  int64_t bytes = 0;
  for (const CheckpointTensor& tensor : tensors)
    if (const auto written = saved_by(tensor, grid_.shape(), at))
      bytes += elements_of(written->in_shard) * static_cast<int64_t>(tensor.shard.element_size());
  return bytes;
}

fs::path CheckpointWriter::save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const {
  const auto save = begin(state, {tensors.begin(), tensors.end()});
  all_ranks_or_none(everyone_, [&] { save->write(); });
  save->exchange();
  all_ranks_or_none(everyone_, [&] {
    if (everyone_.rank() == 0) save->commit();
  });
  return path_of(state);
}

std::unique_ptr<CheckpointSave> CheckpointWriter::begin(CheckpointState state,
                                                        std::vector<CheckpointTensor> tensors) const {
  auto save = std::unique_ptr<CheckpointSave::Impl>(new CheckpointSave::Impl{.grid = grid_,
                                                                             .everyone = everyone_,
                                                                             .options = options_,
                                                                             .state = std::move(state),
                                                                             .tensors = std::move(tensors)});
  all_ranks_or_none(everyone_, [&] {
    check_tensors(grid_, save->at, save->tensors);
    save->find_parts();
    if (everyone_.rank() == 0) check_free(save->whole(), save->state.run);
  });
  save->share();
  all_ranks_or_none(everyone_, [&] {
    if (everyone_.rank() != 0) return;
    check_places(save->places, grid_, save->tensors);
    save->make_directory();
  });
  return std::unique_ptr<CheckpointSave>(new CheckpointSave(std::move(save)));
}

// On a network file system the size can be that of some seconds ago.
void check_written(const fs::path& partial, const Manifest& manifest) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(disk::kLateSeconds);
  for (const auto& file : manifest.files) {
    std::error_code error;
    while (!std::cmp_equal(fs::file_size(partial / file.name, error), file.bytes) || error) {
      AXONN_CHECK(std::chrono::steady_clock::now() < end, "checkpoint.save", (partial / file.name).string(),
                  error ? " is not there" : " has another size than was written",
                  "; the directory of a run must be on a file system that every node sees");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

void remove_old(const fs::path& directory, const CheckpointState& state, int keep) {
  auto steps = history_in(directory);
  std::erase_if(steps, [&](const CheckpointStep& step) {
    return step.step >= state.step || !is_of_run(step.directory, state.run);
  });
  for (size_t i = 0; i + static_cast<size_t>(keep) - 1 < steps.size(); ++i) {
    // A checkpoint that is half removed must not count as one.
    const fs::path going = directory / (step_name(steps[i].step) + ".partial");
    fs::remove_all(going);
    fs::rename(steps[i].directory, going);
  }
  std::vector<fs::path> unfinished;  // those just renamed, and those left by killed runs
  for (const auto& entry : fs::directory_iterator(directory)) {
    const auto name = parse_step_name(entry.path().filename().string());
    if (name && name->suffix == ".partial" && name->step <= state.step) unfinished.push_back(entry.path());
  }
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

}  // namespace axonn
