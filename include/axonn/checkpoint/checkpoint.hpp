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

#include "axonn/checkpoint/cut.hpp"
#include "axonn/checkpoint/history.hpp"
#include "axonn/checkpoint/staging.hpp"
#include "axonn/grid/shard_spec.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/spike_guard.hpp"

// Checkpoints, formats 1 to 3 (docs/checkpoint.md): a directory `step-000500` with a manifest, and
// one safetensors file per rank that stores something. They hold parts of global tensors, so any
// grid can read a checkpoint of any other grid, whatever cut either of them has. The oldest
// format that holds the tensors is written: 2 when one is cut, 3 when one is padded to tiles.
namespace axonn {

// One tensor as this rank holds it. load() fills `shard` in place.
struct CheckpointTensor {
  std::string name;  // "weights/h.0.attn.qkv.weight", "adam.m/...", "adam.v/..."; the part before '/' is its group
  ShardSpec spec;
  // 1-D, contiguous: the stored range of the flattened (X, Y) block, spec.range_numel() elements
  // with their padding, or without it. Of a cut tensor, only the elements of it that this rank
  // owns, with padding.
  at::Tensor shard;
  std::optional<CheckpointCut> cut = {};
  // Only with a cut: place of the range's first element in the arena, the same for all ranks of the
  // cut's group. Ranks of other groups may have other places.
  int64_t arena_offset = 0;

  AxisSet replicated_axes() const;  // axes along which all ranks hold the same shard
};

// State that a checkpoint holds besides tensors; the same on every rank. `configuration` and
// `tokenizer` are JSON.
struct CheckpointState {
  std::string run;    // identity of the run: save() replaces only a checkpoint of the same run
  std::string start;  // the start of a job that saved it, as in starts.jsonl; empty if nobody says
  int64_t step = 0;   // optimizer steps done
  uint64_t seed = 0;
  int64_t samples = 0;                         // training samples consumed: the data position
  uint64_t data_fingerprint = 0;               // TextData::fingerprint()
  std::string configuration = "{}";            // OptionTable::to_json()
  std::string tokenizer = "null";              // Tokenizer::to_json()
  std::optional<LossScale::State> loss_scale;  // only with fp16
  std::optional<SpikeGuard::State> spikes;     // only with a spike guard
  std::map<std::string, std::string> choices;  // measured choices that a resumed run repeats ("gemm")

  int64_t updates() const {  // steps without the skipped ones
    return step - (loss_scale ? loss_scale->skipped : 0) - (spikes ? spikes->skipped : 0);
  }
};

// Writes checkpoints of one run, on all ranks of the grid together. Padding is not stored.
// Replicated tensors are written once, by coordinate 0 of the axes that replicate them, including
// data. Each rank of a cut's group writes its own elements. A run that is killed at any moment
// leaves all earlier complete checkpoints intact.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path directory;  // directory of the run, on a file system that every rank sees
    int keep = 2;                     // complete checkpoints of this run to keep, including the new one
    std::function<void()> barrier;    // over all ranks of the grid; called three times per save()
  };
  CheckpointWriter(const Grid& grid, int rank, Options options);

  // Collective. Returns the checkpoint's directory when it is complete and synced to the disk.
  // All ranks give the same tensors with the same cuts. Throws UserError if a shard does not agree
  // with its spec and cut, the ranks of a cut's group give different arena offsets, a cut's axes
  // are not in the grid's order, a name is used twice, or a checkpoint of another run has the same
  // directory.
  std::filesystem::path save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const;

  // The parts of save(), for callers that write while they compute. They call no barrier: each part
  // begins when all ranks have ended the one before. They may run in any thread, one at a time.
  void begin(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const;  // all ranks
  // All ranks. A rank that fails leaves no file of its own. The bytes of the shards pass through
  // `staging`; without one, the shards must not change before write() returns.
  void write(const CheckpointState& state, std::span<const CheckpointTensor> tensors, Staging* staging = nullptr) const;
  void commit(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const;  // rank 0
  void discard(const CheckpointState& state) const;  // rank 0, instead of commit(): removes what was written
  std::filesystem::path path_of(const CheckpointState& state) const;  // commit() puts it there
  int64_t bytes_of(std::span<const CheckpointTensor> tensors) const;  // in this rank's file, without its header

 private:
  std::filesystem::path partial(const CheckpointState& state) const;
  void check_tensors(std::span<const CheckpointTensor> tensors) const;
  void write_ranges(const std::filesystem::path& partial, std::span<const CheckpointTensor> tensors,
                    Staging* staging) const;
  void remove_old(const CheckpointState& state) const;

  Grid grid_;
  Coordinate at_;
  int rank_;
  Options options_;
};

// Checks the checkpoint of one step: its manifest, the sizes of its files, and the checksums of
// this rank's share of them. Together, all `ranks` check every file. UserError names the file that
// is broken, with both checksums if they differ.
void check_checkpoint(const std::filesystem::path& step_directory, int rank = 0, int ranks = 1);

// Reads one checkpoint, on any grid. Needs no other rank.
class CheckpointReader {
 public:
  // `directory` is that of a run (then the newest checkpoint of its history is read) or of one
  // step. Checks the manifest, and that every file exists and has its size. UserError if there is
  // no checkpoint, the format is unknown, or a file is missing or broken. The error then names the
  // newest older checkpoint that is complete.
  explicit CheckpointReader(const std::filesystem::path& directory);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;

  const std::filesystem::path& directory() const;
  const CheckpointState& state() const;
  const GridShape& grid() const;  // the grid that wrote it

  struct Description {
    std::string name;
    at::ScalarType dtype = at::ScalarType::Float;
    ShardSpec spec;
    std::optional<CheckpointCut> cut = {};
  };
  const std::vector<Description>& tensors() const;

  // Fills the shards of the rank at `at` on a grid of `shape`, bit for bit as they were saved.
  // Their cuts may be other ones than the checkpoint's, or none. Padding becomes zero. Reads a
  // file once, and checks its checksum on the way: after an error the shards hold anything. If
  // `tensors` contains one tensor of a group, it must contain all tensors of that group in the
  // checkpoint. Otherwise throws UserError, with the tensor's name and both shapes.
  void load(const GridShape& shape, const Coordinate& at, std::span<const CheckpointTensor> tensors) const;

  // The whole tensor on the CPU, as it is without a grid. `tensor` is one of tensors(). Checks the
  // checksum of every file that it reads, once for several tensors. UserError if a file does not
  // hold what the manifest says.
  at::Tensor read_whole(const Description& tensor) const;

  // Checks the checksums of all files. UserError names the file and both checksums.
  void verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace axonn
