#include "checkpoint/checkpoint_save.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/pinned_copies.hpp"
#include "checkpoint/shards/saved_range.hpp"
#include "checkpoint/step_names.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

fs::path with_suffix(const fs::path& path, const char* suffix) { return fs::path(path.native() + suffix); }

// Zeros behind the tensors of a part.
std::span<const std::byte> zeros(int64_t bytes) {
  static constexpr std::byte kZeros[8] = {};
  return {kZeros, static_cast<size_t>(bytes)};
}

}  // namespace

fs::path CheckpointSave::Impl::whole() const { return options.directory / step_name(state.step); }
fs::path CheckpointSave::Impl::partial() const { return with_suffix(whole(), ".partial"); }

std::string CheckpointSave::Impl::file_name(size_t file) const {
  if (!options.file) return place_name(grid.coordinate(layout.files[file].ranks.front())) + ".safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "state-%05zu-of-%05zu.safetensors", file + 1, layout.files.size());
  return name;
}

void CheckpointSave::Impl::find_parts() {
  kinds = kinds_of(tensors);
  parts = rank_parts(tensors, kinds, grid.shape(), at, options.file.has_value());
}

// One gather of some numbers per rank: then all know where their parts lie.
void CheckpointSave::Impl::share() {
  const auto per_rank = 2 + 2 * std::ssize(kinds);
  const at::Tensor mine = at::empty({per_rank}, at::kLong), all = at::empty({per_rank * everyone.size()}, at::kLong);
  auto* number = mine.mutable_data_ptr<int64_t>();
  *number++ = options.file ? *options.file : everyone.rank();
  *number++ = static_cast<int64_t>(hash_of_places(tensors));
  for (const RankPart& part : parts) {
    *number++ = std::ssize(header_entries(part.described, 0));
    *number++ = bytes_of(part.described);
  }
  everyone.all_gather(mine, all).wait();
  std::vector<RankShare> shares;
  std::vector<uint64_t> hashes;
  const auto* next = all.const_data_ptr<int64_t>();
  for (int rank = 0; rank < everyone.size(); ++rank) {
    RankShare& share = shares.emplace_back();
    share.file = *next++;
    hashes.push_back(static_cast<uint64_t>(*next++));
    for (size_t kind = 0; kind < kinds.size(); ++kind, next += 2) share.parts.push_back({next[0], next[1]});
  }
  layout = layout_of(shares);
  places = collect_places(everyone, tensors, hashes);
}

void CheckpointSave::Impl::make_directory() const {
  fs::remove_all(partial());  // left by a run that was killed
  fs::create_directories(partial());
}

// The folder that rank 0 has made on another host can be seen late here, or never.
disk::SharedFile CheckpointSave::Impl::open_file(size_t file) const {
  try {
    return disk::SharedFile(partial() / file_name(file));
  } catch (const BackendError&) {
    AXONN_CHECK(fs::exists(partial()), "checkpoint.save", partial().string(), " is not there on rank ", everyone.rank(),
                "; the directory of a run must be on a file system that every node sees");
    throw;
  }
}

// The shards of the parts, in their order.
std::vector<at::Tensor> CheckpointSave::Impl::on_host(std::span<const FileLayout::Part* const> mine) const {
  std::optional<c10::StreamGuard> own;
  if (values) {
    const c10::impl::VirtualGuardImpl device(values->device_type());
    own.emplace(device.getStreamFromGlobalPool(values->device()));
    values->block(own->current_stream());
  }
  std::vector<at::Tensor> hosts;
  for (const FileLayout::Part* place : mine)
    for (const RankPart::Saved& one : parts[place->kind].saved) {
      const at::Tensor& shard = tensors[one.tensor].shard;
      hosts.push_back(shard.is_cpu() ? shard : copied_to_host(shard));
    }
  return hosts;
}

void CheckpointSave::Impl::write(Staging* staging) {
  std::vector<const FileLayout::Part*> places_of_mine;
  for (const FileLayout::Part& part : layout.parts)
    if (part.rank == everyone.rank()) places_of_mine.push_back(&part);
  if (places_of_mine.empty()) return;
  const std::vector<at::Tensor> hosts = on_host(places_of_mine);
  if (values && staging != nullptr) staging->release();  // the hosts' copies do not change
  auto host = hosts.begin();
  std::vector<Staging::Bytes> bytes;
  std::vector<disk::Hash64> hashes(places_of_mine.size());
  disk::SharedFile file = open_file(places_of_mine.front()->file);
  for (size_t i = 0; i < places_of_mine.size(); ++i) {
    const FileLayout::Part& place = *places_of_mine[i];
    const RankPart& part = parts[place.kind];
    const std::string text = place.before + header_entries(part.described, place.data_begin) + place.behind;
    file.write_at(place.header.begin, std::as_bytes(std::span(text)));
    hashes[i].update(std::as_bytes(std::span(text)));
    for (const RankPart::Saved& one : part.saved)
      std::ranges::move(spans_of(*host++, one.in_shard), std::back_inserter(bytes));
    if (part.padding > 0) bytes.push_back(zeros(part.padding));
  }
  size_t i = 0;
  int64_t place = places_of_mine.front()->data.begin;
  Staging none(0);
  (staging != nullptr && !values ? *staging : none).pass(bytes, [&](Staging::Bytes piece) {
    while (!piece.empty()) {
      const int64_t left = places_of_mine[i]->data.end - place;
      const auto now = piece.first(static_cast<size_t>(std::min(left, std::ssize(piece))));
      hashes[i].update(now);
      file.write_at(place, now);
      place += std::ssize(now);
      piece = piece.subspan(now.size());
      if (std::ssize(now) == left) ++i;
    }
  });
  file.finish();
  for (size_t k = 0; k < hashes.size(); ++k) parts[places_of_mine[k]->kind].xxh64 = hashes[k].digest();
}

void CheckpointSave::Impl::exchange() {
  const auto kinds_of_all = std::ssize(kinds);
  const at::Tensor mine = at::empty({kinds_of_all}, at::kLong);
  const at::Tensor all = at::empty({kinds_of_all * everyone.size()}, at::kLong);
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    mine.mutable_data_ptr<int64_t>()[kind] = static_cast<int64_t>(parts[kind].xxh64);
  everyone.all_gather(mine, all).wait();
  if (everyone.rank() != 0) return;
  const auto* sums = all.const_data_ptr<int64_t>();
  sums_of_all.assign(sums, sums + all.numel());
}

Manifest CheckpointSave::Impl::manifest() const {
  Manifest manifest{
      .state = state, .grid = grid.shape(), .tensors = {}, .places = places.lists, .files = {}, .parts = {}};
  for (const auto& tensor : tensors)
    manifest.tensors.push_back({tensor.name, tensor.shard.scalar_type(), tensor.spec, tensor.cut});
  for (size_t i = 0; i < layout.files.size(); ++i) manifest.files.push_back({file_name(i), layout.files[i].bytes});
  for (const FileLayout::Part& part : layout.parts) {
    const auto rank = static_cast<size_t>(part.rank);
    manifest.parts.push_back({.file = part.file,
                              .at = grid.coordinate(part.rank),
                              .replicated = kinds[part.kind],
                              .header = part.header,
                              .data = part.data,
                              .xxh64 = static_cast<uint64_t>(sums_of_all[rank * kinds.size() + part.kind]),
                              .places = places.list_of[rank]});
  }
  return manifest;
}

CheckpointSave::CheckpointSave(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointSave::~CheckpointSave() = default;
const CheckpointState& CheckpointSave::state() const { return impl_->state; }

void CheckpointSave::values_on_stream() {
  for (const CheckpointTensor& tensor : impl_->tensors) {
    const c10::Device device = tensor.shard.device();
    if (device.is_cpu()) continue;
    impl_->values.emplace(device.type());
    impl_->values->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    return;
  }
}

void CheckpointSave::write(Staging* staging) {
  try {
    impl_->write(staging);
  } catch (...) {
    std::error_code ignored;  // the first error counts
    if (!impl_->options.file) fs::remove(impl_->partial() / (place_name(impl_->at) + ".safetensors"), ignored);
    throw;
  }
}

void CheckpointSave::exchange() { impl_->exchange(); }
void CheckpointSave::discard() { fs::remove_all(impl_->partial()); }

void CheckpointSave::commit() {
  const fs::path whole = impl_->whole(), partial = impl_->partial();
  const Manifest manifest = impl_->manifest();
  check_written(partial, manifest);
  disk::write_synced(partial / Manifest::kFileName, manifest.to_json());
  disk::sync_directory(partial);

  const fs::path old = with_suffix(whole, ".old");
  if (fs::exists(whole)) {
    fs::remove_all(old);
    fs::rename(whole, old);
  }
  fs::rename(partial, whole);
  disk::sync_directory(impl_->options.directory);
  try {
    fs::remove_all(old);
    remove_old(impl_->options.directory, impl_->state, impl_->options.keep);
  } catch (const fs::filesystem_error& error) {
    log::warn(whole.string(), " is complete, but an older checkpoint cannot be removed: ", error.what());
  }
}

}  // namespace axonn
