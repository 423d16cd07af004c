#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <c10/core/Event.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/write/arena_places.hpp"
#include "checkpoint/write/file_layout.hpp"
#include "checkpoint/write/rank_parts.hpp"
#include "core/files.hpp"

namespace axonn {

struct CheckpointSave::Impl {
  Grid grid;
  Communicator& everyone;
  CheckpointWriter::Options options;
  CheckpointState state;
  std::vector<CheckpointTensor> tensors;
  Coordinate at = grid.coordinate(everyone.rank());
  std::vector<AxisSet> kinds = {};   // the same on all ranks
  std::vector<RankPart> parts = {};  // by kind
  FileLayout layout = {};            // the places of all ranks
  ArenaPlaces places = {};
  std::optional<c10::Event> values = {};  // the shards on a device have theirs
  std::vector<int64_t> sums_of_all = {};  // on rank 0: of rank 0's kinds, rank 1's kinds, ...

  std::filesystem::path whole() const;
  std::filesystem::path partial() const;
  std::string file_name(size_t file) const;

  void find_parts();
  void share();  // collective
  void make_directory() const;
  void write(Staging* staging);
  void exchange();  // collective
  Manifest manifest() const;

 private:
  disk::SharedFile open_file(size_t file) const;
  std::vector<at::Tensor> on_host(std::span<const FileLayout::Part* const> mine) const;
};

// UserError unless every file of the manifest is there with its size.
void check_written(const std::filesystem::path& partial, const Manifest& manifest);

// Removes older checkpoints of the run than that of `state`, but for keep - 1 of them, and what
// killed runs have left.
void remove_old(const std::filesystem::path& directory, const CheckpointState& state, int keep);

}  // namespace axonn
