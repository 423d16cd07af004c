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
#include "axonn/checkpoint/staging.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/grid/shard_spec.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/spike_guard.hpp"

// Checkpoints (docs/checkpoint.md): a directory `step-000500` with a manifest, and safetensors
// files, one per rank or shared by several. They hold parts of global tensors, so any grid can read
// a checkpoint of any other grid, whatever cut either of them has. Format 4 is written, and formats
// 1 to 3 of older versions are read.
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
  uint64_t data_fingerprint = 0;               // TokenData::fingerprint()
  std::string configuration = "{}";            // OptionTable::to_json()
  std::string tokenizer = "null";              // Tokenizer::to_json()
  std::optional<LossScale::State> loss_scale;  // only with fp16
  std::optional<SpikeGuard::State> spikes;     // only with a spike guard
  std::map<std::string, std::string> choices;  // measured choices that a resumed run repeats ("gemm")

  int64_t updates() const {  // steps without the skipped ones
    return step - (loss_scale ? loss_scale->skipped : 0) - (spikes ? spikes->skipped : 0);
  }
};

// A save that is under way. Made by CheckpointWriter::begin().
class CheckpointSave {
 public:
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  const CheckpointState& state() const;

  // For a write() in another thread, on the thread that computes: shards on a device have their
  // values when the work is done that its stream has been given so far.
  void values_on_stream();

  // These three follow each other, each when all ranks have ended the one before. write(), commit()
  // and discard() call no collective and may run in any thread. All ranks write. The bytes of the
  // shards pass through `staging`; without one, the shards must not change before write() returns.
  // Those on a device are copied to the host first, on a stream of their own.
  void write(Staging* staging = nullptr);
  void exchange();  // collective: rank 0 learns what all have written
  void commit();    // rank 0: completes the checkpoint, and removes old ones
  void discard();   // rank 0, at any time instead of commit(): removes what was written

 private:
  friend class CheckpointWriter;
  struct Impl;
  explicit CheckpointSave(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
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
    // Ranks that give the same number write to one file; each rank has a file of its own without.
    std::optional<int64_t> file = {};
  };
  // Member i of `everyone` is at index i of the grid, as in Grid::group(). It is on the CPU, and
  // outlives the writer.
  CheckpointWriter(const Grid& grid, Communicator& everyone, Options options);

  // Collective, as begin() and the parts of a save. Returns the checkpoint's directory when it is
  // complete and synced to the disk. Errors of one rank are errors of all.
  std::filesystem::path save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) const;

  // Collective. Makes the directory of a save, for callers that write while they compute. All ranks
  // give the same tensors with the same cuts. UserError if a shard does not agree with its spec and
  // cut, the ranks of a cut's group give different arena offsets, a cut's axes are not in the
  // grid's order, a name is used twice, or a checkpoint of another run has the same directory.
  std::unique_ptr<CheckpointSave> begin(CheckpointState state, std::vector<CheckpointTensor> tensors) const;

  std::filesystem::path path_of(const CheckpointState& state) const;  // commit() puts it there
  int64_t bytes_of(std::span<const CheckpointTensor> tensors) const;  // that this rank writes, without headers

 private:
  Grid grid_;
  Communicator& everyone_;
  Options options_;
};

// Checks the checkpoint of one step: its manifest, the sizes of its files, and all checksums.
// UserError names the file that is broken, with both checksums if they differ.
void check_checkpoint(const std::filesystem::path& step_directory);

// The ranks that share all coordinates outside of the axes with this one, on the CPU, as
// Grid::group() numbers them. AxisSet::all() gives all ranks.
using ReplicaGroups = std::function<Communicator&(AxisSet axes)>;

// Reads one checkpoint, on any grid.
class CheckpointReader {
 public:
  // `directory` is that of a run (then the newest checkpoint of its history is read) or of one
  // step. Checks the manifest, and that every file exists and has its size. UserError if there is
  // no checkpoint, the format is unknown, or a file is missing or broken. The error then names the
  // newest older checkpoint that is complete.
  explicit CheckpointReader(const std::filesystem::path& directory);
  // The same on all ranks of a job. Only rank 0 reads the manifest and looks at the files.
  // Collective; UserError too if ranks name other directories.
  // `names_older`: errors name the newest older checkpoint that is whole.
  CheckpointReader(Communicator& everyone, const std::filesystem::path& directory, bool names_older = true);
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
  // checkpoint; ema/NAME may stand for weights/NAME. Otherwise throws UserError, with the tensor's
  // name and both shapes.
  void load(const GridShape& shape, const Coordinate& at, std::span<const CheckpointTensor> tensors) const;
  // The same on all ranks of a grid: ranks that hold the same elements read each part of the
  // checkpoint once and send it to the others. Collective. Errors of one rank are errors of all.
  void load(const ReplicaGroups& groups, const GridShape& shape, const Coordinate& at,
            std::span<const CheckpointTensor> tensors) const;

  // The whole tensor on the CPU, as it is without a grid. `tensor` is one of tensors(). Checks the
  // checksum of every file that it reads, once for several tensors. UserError if a file does not
  // hold what the manifest says.
  at::Tensor read_whole(const Description& tensor) const;

  // Checks all checksums. UserError names the file and both checksums.
  void verify() const;
  // Those of one rank's share: all `ranks` together check everything. The error names no older
  // checkpoint.
  void verify_share(int rank, int ranks) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace axonn
