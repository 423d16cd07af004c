#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/environment.hpp"
#include "comm/self_communicator.hpp"

// Tensors with known bits, and all ranks of a grid that save them in one process.
namespace axonn::test {

struct Tensor {
  std::string name;
  ShardSpec spec;
  at::ScalarType dtype = at::kFloat;
  AxisSet cut = {};  // over these axes; empty: not cut
  int64_t block = 8;
  unsigned places = 0;  // decides where in the arenas it begins
};

// Bytes of element `index` of tensor `number`: any bits, including NaNs.
inline uint64_t pattern(size_t number, int64_t index) {
  return (static_cast<uint64_t>(index) + 1 + number * 1000003) * 0x9E3779B97F4A7C15u;
}

inline at::Tensor filled(int64_t numel, at::ScalarType dtype, int byte) {
  at::Tensor made = at::empty({numel}, dtype);
  std::memset(made.mutable_data_ptr(), byte, made.nbytes());
  return made;
}

inline std::byte* bytes_at(const at::Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr()) + element * static_cast<int64_t>(tensor.element_size());
}

// Tensor `number` as the ranks of a cut hold it together.
inline at::Tensor whole_shard(size_t number, const Tensor& tensor, const GridShape& shape, const Coordinate& at,
                              int padding) {
  at::Tensor shard = filled(tensor.spec.range_numel(shape, at, kRangeAlignment), tensor.dtype, padding);
  const Range range = tensor.spec.block_range(shape, at, kRangeAlignment);
  for (const MappedRange& mapped : mapped_ranges(tensor.spec, shape, at, range))
    for (int64_t i = 0; i < mapped.size; ++i) {
      const uint64_t value = pattern(number, mapped.global_begin + i);
      std::memcpy(bytes_at(shard, mapped.local_begin - range.begin + i), &value, shard.element_size());
    }
  return shard;
}

// Somewhere in the arena, alike on the ranks of the cut's group only.
inline int64_t place_of(const Tensor& tensor, Coordinate at) {
  for (const Axis axis : kAxes)
    if (tensor.cut.contains(axis)) at[axis] = 0;
  std::seed_seq seed{tensor.places, static_cast<unsigned>(at.x), static_cast<unsigned>(at.y),
                     static_cast<unsigned>(at.z), static_cast<unsigned>(at.data)};
  return static_cast<int64_t>(std::mt19937(seed)() % 500);
}

// A rank's part of tensor `number`, by the definition of a cut, element by element.
inline CheckpointTensor shard_of(size_t number, const Tensor& tensor, const Grid& grid, int rank, int padding) {
  const Coordinate at = grid.coordinate(rank);
  const at::Tensor whole = whole_shard(number, tensor, grid.shape(), at, padding);
  if (tensor.cut.empty()) return {tensor.name, tensor.spec, whole};
  CheckpointCut cut = CheckpointCut::over(grid, tensor.cut);
  cut.block = tensor.block;
  const Group group = grid.group(rank, tensor.cut);
  const int64_t place = place_of(tensor, at);
  std::vector<int64_t> mine;
  for (int64_t i = 0; i < whole.numel(); ++i)
    if ((place + i) / tensor.block % group.size() == group.index) mine.push_back(i);
  const at::Tensor shard = filled(std::ssize(mine), tensor.dtype, 0);
  for (size_t i = 0; i < mine.size(); ++i)
    std::memcpy(bytes_at(shard, static_cast<int64_t>(i)), bytes_at(whole, mine[i]), whole.element_size());
  return {tensor.name, tensor.spec, shard, cut, place};
}

// The shards that a rank must hold. `padding` is the byte that fills their padding.
inline std::vector<CheckpointTensor> shards(const std::vector<Tensor>& all, const Grid& grid, int rank, int padding) {
  std::vector<CheckpointTensor> made;
  for (size_t number = 0; number < all.size(); ++number)
    made.push_back(shard_of(number, all[number], grid, rank, padding));
  return made;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

inline CheckpointState state_at(int64_t step, const std::string& run = "mine") { return {.run = run, .step = step}; }

// The communicator of a grid of one rank.
inline Communicator& alone() {
  static SelfCommunicator self(Group{.axes = AxisSet::all(), .ranks = {0}}, c10::kCPU);
  return self;
}

struct SaveOptions {
  int keep = 2;
  int kill = 0;           // from 1: all ranks end behind this part of the save, as a kill would
  int ranks_of_file = 0;  // so many ranks write to one file; 0: each to its own
};

// Runs every rank of the grid in its own thread; each saves shards_of(rank).
inline void save_shards(const std::filesystem::path& directory, const Grid& grid, const CheckpointState& state,
                        const std::function<std::vector<CheckpointTensor>(int)>& shards_of,
                        const SaveOptions& options = {}) {
  run_local(grid.ranks(), [&](Environment& environment) {
    const int rank = environment.rank();
    CheckpointWriter::Options of_writer{.directory = directory, .keep = options.keep};
    if (options.ranks_of_file > 0) of_writer.file = rank / options.ranks_of_file;
    const CheckpointWriter writer(grid, environment.world(), of_writer);
    if (options.kill == 0) {
      writer.save(state, shards_of(rank));
      return;
    }
    const auto save = writer.begin(state, shards_of(rank));
    if (options.kill > 1) save->write();
    environment.world().barrier().wait();
    throw std::runtime_error("killed");
  });
}

inline void save(const std::filesystem::path& directory, const Grid& grid, const CheckpointState& state,
                 const std::vector<Tensor>& all, const SaveOptions& options = {}) {
  const auto shards_of = [&](int rank) { return shards(all, grid, rank, /*padding=*/0x55); };
  save_shards(directory, grid, state, shards_of, options);
}

// By this process, of any file.
inline int64_t bytes_read_so_far() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  int64_t value = 0;
  while (counts >> name >> value)
    if (name == "rchar:") return value;
  return -1;
}

// True if a rank that loads finds what it would have saved, with zeros as padding.
inline bool loads(const CheckpointReader& reader, const Grid& grid, int rank, const std::vector<Tensor>& all) {
  const auto expected = shards(all, grid, rank, /*padding=*/0);
  auto loaded = expected;
  for (CheckpointTensor& tensor : loaded) tensor.shard = filled(tensor.shard.numel(), tensor.shard.scalar_type(), 0x77);
  reader.load(grid.shape(), grid.coordinate(rank), loaded);
  for (size_t i = 0; i < loaded.size(); ++i)
    if (!same_bits(loaded[i].shard, expected[i].shard)) return false;
  return true;
}

}  // namespace axonn::test
