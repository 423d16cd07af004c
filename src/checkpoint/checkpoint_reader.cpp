// The reading half of checkpoint.hpp.
#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/checkpoint/broken_checkpoint.hpp"
#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/history.hpp"
#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/same_settings.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "axonn/core/join.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/pinned_copies.hpp"
#include "checkpoint/read/part_bytes.hpp"
#include "checkpoint/read/read_plan.hpp"
#include "checkpoint/read/read_together.hpp"
#include "checkpoint/shards/held_range.hpp"
#include "checkpoint/shards/placed_parts.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

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

template <typename Check, typename Advice>
auto with_advice(Check check, Advice advice) {
  try {
    return check();
  } catch (const BrokenCheckpoint& error) {
    throw BrokenCheckpoint(error.where(), error.sentence() + advice());
  } catch (const UserError& error) {
    throw UserError(error.where(), error.sentence() + advice());
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
  using Targets = std::map<size_t, ReadTarget>;  // by index of the tensor in the manifest

  fs::path directory;
  Manifest manifest;
  std::unordered_map<std::string, size_t> index = {};  // tensors of the manifest, by name
  mutable std::set<size_t> checked = {};               // parts whose checksums are right, since the last load()

  void set(Manifest read);
  size_t index_of(const CheckpointTensor& tensor) const;
  void check_groups(std::span<const CheckpointTensor> tensors) const;
  Targets targets(const GridShape& shape, const Coordinate& at, std::span<const CheckpointTensor> tensors) const;
  ReadPlan plan(const GridShape& shape, const Coordinate& at, Targets& targets, bool together) const;
  void read_alone(const GridShape& shape, const Coordinate& at, Targets& targets) const;
  void read_alone(const ReadPlan& plan, PartFiles& files) const;
  void read_alone(const PartToRead& read, PartFiles& files) const;
};

namespace {

ReadTarget make_target(const GridShape& shape, const Coordinate& at, const CheckpointTensor& tensor) {
  check_shard(tensor, shape, at, "checkpoint.load");
  ReadTarget target{.tensor = &tensor, .host = tensor.shard.detach(), .placed = {}};
  if (!target.host.is_cpu()) target.host = at::empty(target.host.sizes(), target.host.options().device(at::kCPU));
  target.host.zero_();
  target.placed = placed_in_shard(tensor, shape, at);
  for (const PlacedPart& placed : target.placed) target.missing += placed.size;
  return target;
}

// Adds the rank and its host to an error: they may have other files than the other ranks.
void with_reader(const Communicator& everyone, const std::function<void()>& read) {
  try {
    read();
  } catch (const UserError& error) {
    if (everyone.size() == 1) throw;
    throw UserError(error.where(), detail::concatenate(error.sentence(), ", as rank ", everyone.rank(), " on host ",
                                                       host_name(), " reads it"));
  }
}

void give_to_device(const std::map<size_t, ReadTarget>& targets) {
  for (const auto& [index, target] : targets)
    if (!target.tensor->shard.is_cpu()) copy_to_device(target.host, target.tensor->shard.detach());
}

}  // namespace

void check_checkpoint(const fs::path& step_directory) {
  const Manifest manifest = read_manifest(step_directory);
  PartFiles files(step_directory, manifest);
  for (const auto& part : manifest.parts) PartBytes(files, part).check();
}

CheckpointReader::CheckpointReader(const fs::path& directory) : impl_(std::make_unique<Impl>()) {
  impl_->directory = step_directory(directory);
  impl_->set(with_advice([&] { return read_manifest(impl_->directory); }, [&] { return advice(impl_->directory); }));
}

CheckpointReader::CheckpointReader(Communicator& everyone, const fs::path& directory, bool names_older)
    : impl_(std::make_unique<Impl>()) {
  check_same_settings(everyone, {{"the checkpoint to load", directory.string()}});
  std::string place, text;
  all_ranks_or_none(everyone, [&] {
    if (everyone.rank() != 0) return;
    const fs::path step = step_directory(directory);
    with_advice(
        [&] {
          text = read_manifest_text(step);
          impl_->set(Manifest::from_json(text, step / Manifest::kFileName));
          check_files(step, impl_->manifest);
        },
        [&] { return names_older ? advice(step) : ""; });
    place = step.string();
  });
  impl_->directory = broadcast_text(everyone, place, 0);
  text = broadcast_text(everyone, text, 0);
  if (everyone.rank() != 0) impl_->set(Manifest::from_json(text, impl_->directory / Manifest::kFileName));
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;

const fs::path& CheckpointReader::directory() const { return impl_->directory; }
const CheckpointState& CheckpointReader::state() const { return impl_->manifest.state; }
const GridShape& CheckpointReader::grid() const { return impl_->manifest.grid; }
const std::vector<CheckpointReader::Description>& CheckpointReader::tensors() const { return impl_->manifest.tensors; }

void CheckpointReader::verify() const {
  with_advice([&] { verify_share(0, 1); }, [&] { return advice(impl_->directory); });
}

void CheckpointReader::verify_share(int rank, int ranks) const {
  PartFiles files(impl_->directory, impl_->manifest);
  for (auto i = static_cast<size_t>(rank); i < impl_->manifest.parts.size(); i += static_cast<size_t>(ranks))
    PartBytes(files, impl_->manifest.parts[i]).check();
}

void CheckpointReader::load(const GridShape& shape, const Coordinate& at,
                            std::span<const CheckpointTensor> tensors) const {
  auto targets = impl_->targets(shape, at, tensors);
  impl_->checked.clear();
  with_advice([&] { impl_->read_alone(shape, at, targets); }, [&] { return advice(impl_->directory); });
  give_to_device(targets);
}

void CheckpointReader::load(const ReplicaGroups& groups, const GridShape& shape, const Coordinate& at,
                            std::span<const CheckpointTensor> tensors) const {
  Communicator& everyone = groups(AxisSet::all());
  Impl::Targets targets;
  all_ranks_or_none(everyone, [&] { targets = impl_->targets(shape, at, tensors); });
  impl_->checked.clear();
  const auto read = [&] {
    ReadPlan plan = impl_->plan(shape, at, targets, /*together=*/true);
    const auto shared = greatest(groups, shape, plan.shared());
    all_ranks_or_none(everyone, [&] { with_reader(everyone, [&] { plan.finish(shared); }); });
    PartFiles files(impl_->directory, impl_->manifest);
    std::exception_ptr failed;
    for (const auto& [axes, parts] : plan.together())
      if (const auto error = read_together(groups(axes), files, parts); !failed) failed = error;
    all_ranks_or_none(everyone, [&] {
      with_reader(everyone, [&] {
        if (failed) std::rethrow_exception(failed);
        impl_->read_alone(plan, files);
      });
    });
  };
  with_advice(read, [&] {
    return broadcast_text(everyone, everyone.rank() == 0 ? advice(impl_->directory) : std::string(), 0);
  });
  give_to_device(targets);
}

at::Tensor CheckpointReader::read_whole(const Description& tensor) const {
  ShardSpec whole;
  for (const int64_t size : tensor.spec.global_shape()) whole.dims.push_back(Dim::whole(size));
  const at::Tensor flat = at::empty({whole.global_numel()}, at::TensorOptions().dtype(tensor.dtype));
  const CheckpointTensor asked{.name = tensor.name, .spec = whole, .shard = flat};
  Impl::Targets targets;
  targets.emplace(impl_->index_of(asked), make_target({}, {}, asked));
  with_advice([&] { impl_->read_alone({}, {}, targets); }, [&] { return advice(impl_->directory); });
  return flat.view(whole.global_shape());
}

void CheckpointReader::Impl::set(Manifest read) {
  manifest = std::move(read);
  for (size_t i = 0; i < manifest.tensors.size(); ++i) index.emplace(manifest.tensors[i].name, i);
}

size_t CheckpointReader::Impl::index_of(const CheckpointTensor& tensor) const {
  const auto place = index.find(tensor.name);
  AXONN_CHECK(place != index.end(), "checkpoint.load", directory.string(), " has no tensor ", tensor.name, " (",
              shape_text(tensor.spec), " is needed)");
  const Description& found = manifest.tensors[place->second];
  AXONN_CHECK(found.spec.global_shape() == tensor.spec.global_shape(), "checkpoint.load", "tensor ", tensor.name,
              " has shape ", shape_text(found.spec), " in ", directory.string(), ", the model has ",
              shape_text(tensor.spec));
  AXONN_CHECK(found.dtype == tensor.shard.scalar_type(), "checkpoint.load", "tensor ", tensor.name, " is ",
              safetensors::dtype_name(found.dtype), " in ", directory.string(), ", the model has ",
              safetensors::dtype_name(tensor.shard.scalar_type()));
  return place->second;
}

void CheckpointReader::Impl::check_groups(std::span<const CheckpointTensor> tensors) const {
  std::unordered_set<std::string_view> names, groups;
  for (const auto& tensor : tensors) {
    names.insert(tensor.name);
    groups.insert(group_of(tensor.name));
  }
  const auto by_average = [&](std::string_view name) {
    return group_of(name) == "weights" && names.contains("ema" + std::string(name.substr(name.find('/'))));
  };
  for (const auto& stored : manifest.tensors)
    AXONN_CHECK(names.contains(stored.name) || !groups.contains(group_of(stored.name)) || by_average(stored.name),
                "checkpoint.load", directory.string(), " has tensor ", stored.name, " of shape ",
                shape_text(stored.spec), ", which the model has not");
}

CheckpointReader::Impl::Targets CheckpointReader::Impl::targets(const GridShape& shape, const Coordinate& at,
                                                                std::span<const CheckpointTensor> tensors) const {
  check_groups(tensors);
  Targets targets;
  for (const auto& tensor : tensors) {
    auto target = make_target(shape, at, tensor);
    const bool fresh = targets.emplace(index_of(tensor), std::move(target)).second;
    AXONN_CHECK(fresh, "checkpoint.load", "tensor ", tensor.name, " is asked for twice");
  }
  return targets;
}

ReadPlan CheckpointReader::Impl::plan(const GridShape& shape, const Coordinate& at, Targets& targets,
                                      bool together) const {
  ReadPlan plan(directory, manifest, shape, at, together);
  for (auto& [tensor, target] : targets) plan.add(tensor, target);
  return plan;
}

void CheckpointReader::Impl::read_alone(const GridShape& shape, const Coordinate& at, Targets& targets) const {
  ReadPlan alone = plan(shape, at, targets, /*together=*/false);
  alone.finish(alone.shared());
  PartFiles files(directory, manifest);
  read_alone(alone, files);
}

void CheckpointReader::Impl::read_alone(const ReadPlan& plan, PartFiles& files) const {
  for (const PartToRead& read : plan.alone()) read_alone(read, files);
}

// A part is read once: its checksum is made of the bytes on their way to the shards. When it is
// known to be right, only what is wanted is read.
void CheckpointReader::Impl::read_alone(const PartToRead& read, PartFiles& files) const {
  const Manifest::Part& part = manifest.parts[read.part];
  if (checked.contains(read.part)) {
    const auto file = files.open(part);
    for (const WantedBytes& wanted : read.wanted)
      file->read_at(wanted.begin, {wanted.into, static_cast<size_t>(wanted.size)});
    return;
  }
  PartBytes bytes(files, part);
  Delivery delivery(read.wanted);
  while (const auto piece = bytes.next()) delivery.take(*piece);
  bytes.check();
  checked.insert(read.part);
}

}  // namespace axonn
