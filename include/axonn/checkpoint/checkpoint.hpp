#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"
#include "axonn/optim/loss_scale.hpp"

// Checkpoints, format 1 (docs/checkpoint.md): a directory `step-000500` with a manifest and one safetensors file for every rank that owns
// something. They hold global tensors in pieces, so what one grid wrote any grid reads.
namespace axonn {

// One tensor as this rank holds it. To load, `shard` is filled in place.
struct CheckpointTensor {
  std::string name;  // "weights/h.0.attn.qkv.weight", "adam.m/...", "adam.v/..."; the part before '/' is its group
  ShardSpec spec;
  at::Tensor shard;  // 1-D, contiguous: the stored range of the flattened (X, Y) block, spec.range_numel() elements with their padding
};

// What a checkpoint holds besides tensors; the same on every rank. Texts are JSON.
struct CheckpointState {
  std::string run;   // identity of the run: a later save of the same step may replace only a checkpoint of the same run
  int64_t step = 0;  // optimizer steps done
  uint64_t seed = 0;
  int64_t samples = 0;                         // training samples consumed: the data position
  uint64_t data_fingerprint = 0;               // TextData::fingerprint()
  std::string configuration = "{}";            // OptionTable::to_json()
  std::string tokenizer = "null";              // Tokenizer::to_json()
  std::optional<LossScale::State> loss_scale;  // of a run with fp16
  std::map<std::string, std::string> choices;  // what was chosen by measurement and must be chosen again ("gemm")
};

// Writes checkpoints of one run, on all ranks of the grid together. Padding is stripped, replicated tensors are written once (by coordinate
// 0 of the axes that replicate them, data among them). A run killed at any moment leaves the checkpoints that were whole before it whole.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path directory;  // of the run; on a file system that every rank sees
    int keep = 2;                     // whole checkpoints of this run to keep, the new one counted
    std::function<void()> barrier;    // over all ranks of the grid; three times a save
  };
  CheckpointWriter(const Grid& grid, int rank, Options options);

  // Collective. Returns the checkpoint's directory once it is whole and on the disk. UserError: a shard that does not agree with its spec,
  // a name used twice, a checkpoint of another run in the way.
  std::filesystem::path save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const;

 private:
  void check_tensors(std::span<const CheckpointTensor> tensors) const;
  void begin(const std::filesystem::path& partial) const;
  void write_pieces(const std::filesystem::path& partial, std::span<const CheckpointTensor> tensors) const;
  void commit(const std::filesystem::path& partial, const std::filesystem::path& whole, const CheckpointState& state,
              std::span<const CheckpointTensor> tensors) const;
  void remove_old(const CheckpointState& state) const;

  Grid grid_;
  Coordinate at_;
  int rank_;
  Options options_;
};

// The checkpoints of a run's directory, ascending; those that were never finished are not among them.
struct CheckpointStep {
  int64_t step = 0;
  std::filesystem::path directory;
};
std::vector<CheckpointStep> checkpoints_in(const std::filesystem::path& run_directory);

// Reads one checkpoint, on any grid; needs no other rank.
class CheckpointReader {
 public:
  // `directory` is a run's (its newest checkpoint is taken) or one step's. Checks the manifest and that every file is there in its size.
  // UserError: no checkpoint, an unknown format, a file that is missing or broken; the sentence then names the newest older one that is
  // whole.
  explicit CheckpointReader(const std::filesystem::path& directory);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;

  const std::filesystem::path& directory() const;
  const CheckpointState& state() const;
  const GridShape& grid() const;  // that wrote it

  struct Description {
    std::string name;
    at::ScalarType dtype = at::ScalarType::Float;
    ShardSpec spec;
  };
  const std::vector<Description>& tensors() const;

  // Fills the shards of the rank at `at` on a grid of `shape`: bit for bit what was saved; padding becomes zero. Checks the checksum of
  // every file it reads from. Of each group that is asked for, all tensors of the checkpoint must be: UserError names the tensor, and both
  // shapes.
  void load(const GridShape& shape, const Coordinate& at, std::span<const CheckpointTensor> tensors) const;

  // Checks the checksums of all files; UserError names the file and both.
  void verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace axonn
