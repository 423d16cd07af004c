// The reading half of checkpoint.hpp.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/checkpoint/broken_checkpoint.hpp"
#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "checkpoint/held_range.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/pinned_copies.hpp"
#include "checkpoint/placed_parts.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReadBytes = int64_t{1} << 20;  // at once

std::string shape_text(const ShardSpec& spec) { return "[" + join(spec.global_shape(), ", ") + "]"; }

std::string_view group_of(std::string_view name) { return name.substr(0, name.find('/')); }

// "the newest older checkpoint that is whole is runs/a/step-000400", for errors.
std::string advice(const fs::path& directory) {
  const auto name = parse_step_name(directory.filename().string());
  auto steps = history_in(directory.has_parent_path() ? directory.parent_path() : fs::path("."));
  std::erase_if(steps, [&](const CheckpointStep& step) { return name && step.step >= name->step; });
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      check_checkpoint(step->directory);
      return "; the newest older checkpoint that is whole is " + step->directory.string();
    } catch (const UserError&) {
      continue;
    }
  }
  return "; there is no older checkpoint that is whole";
}

template <typename Check>
auto with_advice(const fs::path& directory, Check check) {
  try {
    return check();
  } catch (const BrokenCheckpoint& error) {
    throw BrokenCheckpoint(error.where(), error.sentence() + advice(directory));
  } catch (const UserError& error) {
    throw UserError(error.where(), error.sentence() + advice(directory));
  }
}

fs::path step_directory(const fs::path& given) {
  AXONN_CHECK(fs::is_directory(given), "checkpoint.load", "there is no checkpoint ", given.string(),
              ": no such directory");
  const fs::path directory = given.filename().empty() ? given.parent_path() : given;
  if (parse_step_name(directory.filename().string()) || fs::exists(directory / Manifest::kFileName)) return directory;
  const auto all = checkpoints_in(directory), steps = history_in(directory);
  const auto from = branched_from(directory);
  AXONN_CHECK(!from, "checkpoint.load", "there is no checkpoint in ", directory.string(), " yet: the run went on from ",
              from->string(), ", and --resume auto --out ", directory.string(), " does so again");
  AXONN_CHECK(!all.empty(), "checkpoint.load", "there is no checkpoint in ", directory.string(),
              "; give a run's directory, with step-000500 or the like in it, or one of those");
  AXONN_CHECK(!steps.empty(), "checkpoint.load", "there is no checkpoint in ", directory.string(),
              " of its own history; ", all.back().directory.string(), " was copied there: --out DIR --resume ",
              all.back().directory.string(), " begins a run from it");
  return steps.back().directory;
}

}  // namespace

struct CheckpointReader::Impl {
  // One tensor to fill.
  struct Target {
    const CheckpointTensor* tensor = nullptr;
    at::Tensor host;
    std::vector<PlacedPart> placed;
    int64_t missing = 0;
  };

  // Bytes of a file, and their place in a shard.
  struct WantedBytes {
    int64_t begin = 0, size = 0;
    std::byte* into = nullptr;
  };

  fs::path directory;
  Manifest manifest;
  mutable std::set<std::string> checked = {};  // files whose checksums are right, since the last load()

  size_t index_of(const CheckpointTensor& tensor) const;
  void check_groups(std::span<const CheckpointTensor> tensors) const;
  Target make_target(const GridShape& shape, const Coordinate& at, const CheckpointTensor& tensor) const;
  bool may_hold(const Manifest::File& file, const Manifest::StoredRange& stored, const GridShape& shape,
                const Coordinate& at, const CheckpointTensor& tensor) const;
  void fill(const GridShape& shape, const Coordinate& at, std::map<size_t, Target>& targets) const;
  void fill_from(const Manifest::File& file, const GridShape& shape, const Coordinate& at,
                 std::map<size_t, Target>& targets) const;
  int64_t begin_in(const safetensors::File& opened, const Manifest::File& file, size_t index, int64_t elements) const;
  void read(const safetensors::File& opened, const Manifest::File& file, std::vector<WantedBytes>& wanted) const;
};

void check_checkpoint(const fs::path& step_directory, int rank, int ranks) {
  const Manifest manifest = read_manifest(step_directory);
  for (auto i = static_cast<size_t>(rank); i < manifest.files.size(); i += static_cast<size_t>(ranks))
    check_file(step_directory, manifest.files[i]);
}

CheckpointReader::CheckpointReader(const fs::path& directory) : impl_(std::make_unique<Impl>()) {
  impl_->directory = step_directory(directory);
  impl_->manifest = with_advice(impl_->directory, [&] { return read_manifest(impl_->directory); });
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;

const fs::path& CheckpointReader::directory() const { return impl_->directory; }
const CheckpointState& CheckpointReader::state() const { return impl_->manifest.state; }
const GridShape& CheckpointReader::grid() const { return impl_->manifest.grid; }
const std::vector<CheckpointReader::Description>& CheckpointReader::tensors() const { return impl_->manifest.tensors; }

void CheckpointReader::verify() const {
  with_advice(impl_->directory, [&] {
    for (const auto& file : impl_->manifest.files) check_file(impl_->directory, file);
  });
}

void CheckpointReader::load(const GridShape& shape, const Coordinate& at,
                            std::span<const CheckpointTensor> tensors) const {
  impl_->check_groups(tensors);
  std::map<size_t, Impl::Target> targets;
  for (const auto& tensor : tensors) {
    const bool fresh = targets.emplace(impl_->index_of(tensor), impl_->make_target(shape, at, tensor)).second;
    AXONN_CHECK(fresh, "checkpoint.load", "tensor ", tensor.name, " is asked for twice");
  }
  impl_->checked.clear();
  with_advice(impl_->directory, [&] { impl_->fill(shape, at, targets); });
  for (auto& [index, target] : targets)
    if (!target.tensor->shard.is_cpu()) copy_to_device(target.host, target.tensor->shard.detach());
}

at::Tensor CheckpointReader::read_whole(const Description& tensor) const {
  ShardSpec whole;
  for (const int64_t size : tensor.spec.global_shape()) whole.dims.push_back(Dim::whole(size));
  const at::Tensor flat = at::empty({whole.global_numel()}, at::TensorOptions().dtype(tensor.dtype));
  const CheckpointTensor asked{.name = tensor.name, .spec = whole, .shard = flat};
  const GridShape shape{};
  std::map<size_t, Impl::Target> targets;
  targets.emplace(impl_->index_of(asked), impl_->make_target(shape, {}, asked));
  with_advice(impl_->directory, [&] { impl_->fill(shape, {}, targets); });
  return flat.view(whole.global_shape());
}

size_t CheckpointReader::Impl::index_of(const CheckpointTensor& tensor) const {
  const auto found = std::ranges::find(manifest.tensors, tensor.name, &Description::name);
  AXONN_CHECK(found != manifest.tensors.end(), "checkpoint.load", directory.string(), " has no tensor ", tensor.name,
              " (", shape_text(tensor.spec), " is needed)");
  AXONN_CHECK(found->spec.global_shape() == tensor.spec.global_shape(), "checkpoint.load", "tensor ", tensor.name,
              " has shape ", shape_text(found->spec), " in ", directory.string(), ", the model has ",
              shape_text(tensor.spec));
  AXONN_CHECK(found->dtype == tensor.shard.scalar_type(), "checkpoint.load", "tensor ", tensor.name, " is ",
              safetensors::dtype_name(found->dtype), " in ", directory.string(), ", the model has ",
              safetensors::dtype_name(tensor.shard.scalar_type()));
  return static_cast<size_t>(found - manifest.tensors.begin());
}

void CheckpointReader::Impl::check_groups(std::span<const CheckpointTensor> tensors) const {
  for (const auto& stored : manifest.tensors) {
    const bool group_asked =
        std::ranges::any_of(tensors, [&](const auto& t) { return group_of(t.name) == group_of(stored.name); });
    const bool asked = std::ranges::find(tensors, stored.name, &CheckpointTensor::name) != tensors.end();
    AXONN_CHECK(asked || !group_asked, "checkpoint.load", directory.string(), " has tensor ", stored.name, " of shape ",
                shape_text(stored.spec), ", which the model has not");
  }
}

CheckpointReader::Impl::Target CheckpointReader::Impl::make_target(const GridShape& shape, const Coordinate& at,
                                                                   const CheckpointTensor& tensor) const {
  check_shard(tensor, shape, at, "checkpoint.load");
  Target target{.tensor = &tensor, .host = tensor.shard.detach(), .placed = {}};
  if (!target.host.is_cpu()) target.host = at::empty(target.host.sizes(), target.host.options().device(at::kCPU));
  target.host.zero_();
  target.placed = placed_in_shard(tensor, shape, at);
  for (const PlacedPart& placed : target.placed) target.missing += placed.size;
  return target;
}

// False when a file of this rank certainly holds nothing of the shard: the grids have the same
// blocks and ranges, and the file is of another one.
bool CheckpointReader::Impl::may_hold(const Manifest::File& file, const Manifest::StoredRange& stored,
                                      const GridShape& shape, const Coordinate& at,
                                      const CheckpointTensor& tensor) const {
  const GridShape& saved = manifest.grid;
  const Description& description = manifest.tensors[stored.tensor];
  if (description.spec != tensor.spec || shape.x != saved.x || shape.y != saved.y || shape.z != saved.z) return true;
  const auto elsewhere = [&](Axis axis) { return file.at[axis] != at[axis]; };
  for (const Axis axis : {Axis::x, Axis::y, Axis::z})
    if (tensor.spec.uses(axis) && elsewhere(axis)) return false;
  const bool same_cut = tensor.cut && tensor.cut == description.cut && tensor.arena_offset == *stored.arena_offset &&
                        shape.size(tensor.cut->axis_set()) == saved.size(tensor.cut->axis_set());
  return !same_cut || std::ranges::none_of(tensor.cut->axes, elsewhere);
}

void CheckpointReader::Impl::fill(const GridShape& shape, const Coordinate& at,
                                  std::map<size_t, Target>& targets) const {
  for (const auto& file : manifest.files) fill_from(file, shape, at, targets);
  for (const auto& [index, target] : targets)
    AXONN_CHECK(target.missing == 0, "checkpoint.load", directory.string(), " lacks ", target.missing, " elements of ",
                target.tensor->name);
}

// A file is read once: its checksum is made of the bytes on their way to the shards.
void CheckpointReader::Impl::fill_from(const Manifest::File& file, const GridShape& shape, const Coordinate& at,
                                       std::map<size_t, Target>& targets) const {
  std::optional<safetensors::File> opened;
  std::vector<WantedBytes> wanted;
  try {
    for (const auto& stored : manifest.ranges_in(file)) {
      const auto found = targets.find(stored.tensor);
      if (found == targets.end() || !may_hold(file, stored, shape, at, *found->second.tensor)) continue;
      const auto in_file = placed_in_file(manifest.tensors[stored.tensor], manifest.grid, file.at, stored);
      const auto copies = intersect(in_file, found->second.placed);
      if (copies.empty()) continue;
      if (!opened) opened.emplace(directory / file.name);
      const int64_t begin = begin_in(*opened, file, stored.tensor, in_file.back().offset + in_file.back().size);
      Target& target = found->second;
      const auto element = static_cast<int64_t>(target.host.element_size());
      auto* const into = static_cast<std::byte*>(target.host.mutable_data_ptr());
      for (const PartCopy& copy : copies) {
        wanted.push_back({begin + copy.from * element, copy.size * element, into + copy.to * element});
        target.missing -= copy.size;
      }
    }
  } catch (const UserError&) {
    check_file(directory, file);  // its bytes say more than what does not fit in them
    throw;
  }
  if (!wanted.empty()) read(*opened, file, wanted);
}

// The place of the bytes of a tensor, which has so many elements in the file.
int64_t CheckpointReader::Impl::begin_in(const safetensors::File& opened, const Manifest::File& file, size_t index,
                                         int64_t elements) const {
  const Description& tensor = manifest.tensors[index];
  const auto* entry = opened.find(tensor.name);
  AXONN_CHECK(entry != nullptr && entry->dtype == tensor.dtype, "checkpoint.load", (directory / file.name).string(),
              " does not hold ", tensor.name, " as its manifest says");
  const int64_t holds = entry->size_bytes() / static_cast<int64_t>(c10::elementSize(tensor.dtype));
  AXONN_CHECK(holds == elements, "checkpoint.load", (directory / file.name).string(), " holds ", holds, " elements of ",
              tensor.name, ", its manifest says ", elements);
  return opened.begin_of(*entry);
}

void CheckpointReader::Impl::read(const safetensors::File& opened, const Manifest::File& file,
                                  std::vector<WantedBytes>& wanted) const {
  std::ranges::sort(wanted, {}, &WantedBytes::begin);
  size_t next = 0;  // those before it are read
  const auto copy = [&](int64_t begin, std::span<const std::byte> bytes) {
    const int64_t end = begin + std::ssize(bytes);
    for (size_t i = next; i < wanted.size() && wanted[i].begin < end; ++i) {
      const WantedBytes& part = wanted[i];
      const int64_t first = std::max(begin, part.begin), last = std::min(end, part.begin + part.size);
      if (first < last)
        std::memcpy(part.into + (first - part.begin), bytes.data() + (first - begin),
                    static_cast<size_t>(last - first));
      if (i == next && part.begin + part.size <= end) ++next;
    }
  };
  if (!checked.contains(file.name)) {
    check_sum(directory, file, disk::xxh64_of_file(directory / file.name, copy));
    checked.insert(file.name);
    return;
  }
  std::vector<std::byte> bytes;
  for (int64_t place = wanted.front().begin; next < wanted.size(); place += std::ssize(bytes)) {
    bytes.resize(static_cast<size_t>(std::min(kReadBytes, opened.end() - place)));
    opened.read_at(place, bytes);
    copy(place, bytes);
  }
}

}  // namespace axonn
