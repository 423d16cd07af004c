#include "axonn/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "checkpoint/held_range.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/pinned_copies.hpp"
#include "checkpoint/rank_notes.hpp"
#include "checkpoint/saved_range.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

bool any_cut(std::span<const CheckpointTensor> tensors) {
  return std::ranges::any_of(tensors, [](const CheckpointTensor& tensor) { return tensor.cut.has_value(); });
}

std::string file_name(const Coordinate& at) {
  const std::string data = at.data == 0 ? "" : detail::concatenate("-d", at.data);
  return detail::concatenate("x", at.x, "-y", at.y, "-z", at.z, data, ".safetensors");
}

fs::path with_suffix(const fs::path& path, const char* suffix) { return fs::path(path.native() + suffix); }

bool is_whole(const fs::path& directory) {
  try {
    read_manifest(directory);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

bool is_of_run(const fs::path& directory, const std::string& run) {
  try {
    return read_manifest(directory).state.run == run;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(const Grid& grid, int rank, Options options)
    : grid_(grid), at_(grid.coordinate(rank)), rank_(rank), options_(std::move(options)) {
  AXONN_CHECK(options_.keep >= 1, "checkpoint.save", "at least 1 checkpoint is kept, got ", options_.keep);
  AXONN_ASSERT(options_.barrier, "a checkpoint needs a barrier");
}

fs::path CheckpointWriter::path_of(const CheckpointState& state) const {
  return options_.directory / step_name(state.step);
}

int64_t CheckpointWriter::bytes_of(std::span<const CheckpointTensor> tensors) const {
  int64_t bytes = 0;
  for (const CheckpointTensor& tensor : tensors)
    if (const auto written = saved_by(tensor, grid_.shape(), at_))
      bytes += elements_of(written->in_shard) * static_cast<int64_t>(tensor.shard.element_size());
  return bytes;
}

fs::path CheckpointWriter::partial(const CheckpointState& state) const {
  return with_suffix(path_of(state), ".partial");
}

fs::path CheckpointWriter::save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const {
  begin(state, tensors);
  options_.barrier();
  write(state, tensors);
  options_.barrier();
  if (rank_ == 0) commit(state, tensors);
  options_.barrier();
  return path_of(state);
}

void CheckpointWriter::begin(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const {
  check_tensors(tensors);
  const fs::path directory = path_of(state);
  AXONN_CHECK(
      !is_whole(directory) || is_of_run(directory, state.run), "checkpoint.save", directory.string(),
      " is a whole checkpoint of another run and is not overwritten; choose another directory, or resume that run");
  if (rank_ != 0) return;
  fs::remove_all(partial(state));  // left by a run that was killed
  fs::create_directories(partial(state));
}

void CheckpointWriter::write(const CheckpointState& state, std::span<const CheckpointTensor> tensors,
                             Staging* staging) const {
  try {
    write_ranges(partial(state), tensors, staging);
  } catch (...) {
    std::error_code ignored;  // the first error counts
    fs::remove(partial(state) / file_name(at_), ignored);
    throw;
  }
}

void CheckpointWriter::discard(const CheckpointState& state) const { fs::remove_all(partial(state)); }

void CheckpointWriter::check_tensors(std::span<const CheckpointTensor> tensors) const {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    AXONN_CHECK(!tensor.name.empty() && names.insert(tensor.name).second, "checkpoint.save", "tensor name '",
                tensor.name, "' is empty or used twice");
    check_shard(tensor, grid_.shape(), at_, "checkpoint.save");
    if (const auto& cut = tensor.cut; cut)
      AXONN_CHECK(cut->axes == CheckpointCut::over(grid_, cut->axis_set()).axes, "checkpoint.save", "the cut of ",
                  tensor.name, " over ", cut->to_string(), " must name its axes in the grid's order, ",
                  to_string(grid_.order()));
    safetensors::dtype_name(tensor.shard.scalar_type());
  }
}

void CheckpointWriter::write_ranges(const fs::path& partial, std::span<const CheckpointTensor> tensors,
                                    Staging* staging) const {
  if (at_.data != 0 && !any_cut(tensors)) return;
  Manifest::File file{.name = file_name(at_), .at = at_};
  bool listed = false;  // in the manifest, whether or not this rank owns elements
  std::vector<safetensors::View> views;
  std::vector<at::Tensor> hosts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, spec, shard, cut, offset] = tensors[i];
    const auto written = saved_by(tensors[i], grid_.shape(), at_);
    if (!written) continue;
    file.ranges.push_back({i, written->range, cut ? std::optional(offset) : std::nullopt});
    listed = listed || !cut || cut->is_first(at_);
    if (written->in_shard.empty()) continue;
    const at::Tensor& host = hosts.emplace_back(shard.is_cpu() ? shard : copied_to_host(shard));
    views.push_back({name, shard.scalar_type(), {elements_of(written->in_shard)}, spans_of(host, written->in_shard)});
  }
  if (listed || !views.empty()) {
    int format = 1;
    for (const auto& tensor : tensors) format = std::max(format, format_for(tensor.spec, tensor.cut));
    const auto written = safetensors::write(
        partial / file.name, views,
        {{"format", detail::concatenate("axonn checkpoint ", format)}, {"at", at_.to_string()}}, staging);
    file.bytes = written.bytes;
    file.xxh64 = disk::hex(written.xxh64);
  }
  write_note(partial, file);
}

void CheckpointWriter::commit(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const {
  const fs::path whole = path_of(state), partial = this->partial(state);
  Manifest manifest{.state = state, .grid = grid_.shape(), .tensors = {}, .files = {}};
  for (const auto& tensor : tensors)
    manifest.tensors.push_back({tensor.name, tensor.shard.scalar_type(), tensor.spec, tensor.cut});
  const int64_t writers = any_cut(tensors) ? grid_.ranks() : grid_.shape().size({Axis::x, Axis::y, Axis::z});
  manifest.files = take_notes(partial, writers, manifest.tensors);
  disk::write_synced(partial / Manifest::kFileName, manifest.to_json());
  disk::sync_directory(partial);

  const fs::path old = with_suffix(whole, ".old");
  if (fs::exists(whole)) {
    fs::remove_all(old);
    fs::rename(whole, old);
  }
  fs::rename(partial, whole);
  disk::sync_directory(options_.directory);
  try {
    fs::remove_all(old);
    remove_old(state);
  } catch (const fs::filesystem_error& error) {
    log::warn(whole.string(), " is complete, but an older checkpoint cannot be removed: ", error.what());
  }
}

void CheckpointWriter::remove_old(const CheckpointState& state) const {
  auto steps = history_in(options_.directory);
  std::erase_if(steps, [&](const CheckpointStep& step) {
    return step.step >= state.step || !is_of_run(step.directory, state.run);
  });
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) - 1 < steps.size(); ++i) {
    // A checkpoint that is half removed must not count as one.
    const fs::path going = options_.directory / (step_name(steps[i].step) + ".partial");
    fs::remove_all(going);
    fs::rename(steps[i].directory, going);
  }
  std::vector<fs::path> unfinished;  // those just renamed, and those left by killed runs
  for (const auto& entry : fs::directory_iterator(options_.directory)) {
    const auto name = parse_step_name(entry.path().filename().string());
    if (name && name->suffix == ".partial" && name->step <= state.step) unfinished.push_back(entry.path());
  }
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

}  // namespace axonn
