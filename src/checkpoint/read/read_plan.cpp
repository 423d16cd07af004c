#include "checkpoint/read/read_plan.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "checkpoint.load";
constexpr int64_t kMostPadding = 8;  // bytes behind the tensors of a part

// Ascending and apart.
void merge(std::vector<Range>& ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  size_t kept = 0;
  for (const Range& range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

}  // namespace

// By the rule of format 4, or as the file's own header says.
class ReadPlan::Begins {
 public:
  Begins(const std::filesystem::path& directory, const Manifest& manifest, const Manifest::Part& part)
      : manifest_(manifest), name_((directory / manifest.name_of(part)).string()) {
    if (manifest.has_rule())
      read_rule(part);
    else
      file_.emplace(name_);
  }

  int64_t of(size_t tensor, int64_t elements) const {
    if (!file_) return begins_.at(tensor);
    const auto& description = manifest_.tensors[tensor];
    const auto* entry = file_->find(description.name);
    AXONN_CHECK(entry != nullptr && entry->dtype == description.dtype, kWhere, name_, " does not hold ",
                description.name, " as its manifest says");
    const int64_t holds = entry->size_bytes() / static_cast<int64_t>(c10::elementSize(description.dtype));
    AXONN_CHECK(holds == elements, kWhere, name_, " holds ", holds, " elements of ", description.name,
                ", its manifest says ", elements);
    return file_->begin_of(*entry);
  }

 private:
  void read_rule(const Manifest::Part& part) {
    int64_t end = part.data.begin;
    for (const Manifest::Placed& placed : manifest_.placed_in(part)) {
      begins_.emplace(placed.stored.tensor, placed.bytes.begin);
      end = placed.bytes.end;
    }
    AXONN_CHECK(end <= part.data.end && part.data.end < end + kMostPadding, kWhere, name_, " has ", part.data.size(),
                " bytes of ", part.at.to_string(), ", whose tensors take ", end - part.data.begin,
                "; copy the checkpoint again");
  }

  const Manifest& manifest_;
  std::string name_;
  std::unordered_map<size_t, int64_t> begins_;
  std::optional<safetensors::File> file_;
};

ReadPlan::ReadPlan(const std::filesystem::path& directory, const Manifest& manifest, const GridShape& shape,
                   const Coordinate& at, bool together)
    : directory_(directory),
      manifest_(manifest),
      shape_(shape),
      at_(at),
      reads_together_(together),
      search_(manifest, shape, at) {}

void ReadPlan::add(size_t index, ReadTarget& target) {
  asked_.push_back({.index = index, .target = &target, .own = search_.own_part(index, *target.tensor)});
}

std::vector<uint8_t> ReadPlan::shared() const {
  std::vector<uint8_t> numbers;
  for (const Asked& asked : asked_) numbers.push_back(asked.own ? 0 : 1);
  return numbers;
}

void ReadPlan::find_parts(size_t number, bool shared) {
  Asked& asked = asked_[number];
  const CheckpointTensor& tensor = *asked.target->tensor;
  CheckpointTensor of_group = tensor;
  if (shared) of_group.cut.reset();
  if (const AxisSet replicas = of_group.replicated_axes(); reads_together_ && shape_.size(replicas) > 1) {
    asked.together = replicas;
    asked.of_group = placed_in_shard(of_group, shape_, at_);
  }
  const auto parts = shared ? search_.holding(asked.index, tensor) : *asked.own;
  for (const size_t part : parts) asked_of_[{asked.together.bits(), part}].push_back(number);
}

void ReadPlan::finish(const std::vector<uint8_t>& shared) {
  for (size_t i = 0; i < asked_.size(); ++i) find_parts(i, shared[i] != 0);
  for (const auto& [place, tensors] : asked_of_) {
    const size_t number = place.second;
    const AxisSet axes = asked_[tensors.front()].together;
    PartToRead read{.part = number, .wanted = {}, .sent = {}};
    std::optional<Begins> begins;
    try {
      for (const size_t i : tensors) add_tensor(read, asked_[i], begins);
    } catch (const UserError&) {
      PartFiles files(directory_, manifest_);
      PartBytes(files, manifest_.parts[number]).check();  // its bytes say more than what is not there
      throw;
    }
    if (!begins) continue;
    std::ranges::sort(read.wanted, {}, &WantedBytes::begin);
    merge(read.sent);
    if (!axes.empty() && (together_.empty() || together_.back().axes != axes)) together_.push_back({axes, {}});
    (axes.empty() ? alone_ : together_.back().parts).push_back(std::move(read));
  }
  for (const Asked& asked : asked_)
    AXONN_CHECK(asked.target->missing == 0, kWhere, directory_.string(), " lacks ", asked.target->missing,
                " elements of ", asked.target->tensor->name);
}

void ReadPlan::add_tensor(PartToRead& read, const Asked& asked, std::optional<Begins>& begins) {
  const Manifest::Part& part = manifest_.parts[read.part];
  const auto stored = manifest_.range_in(part, asked.index);
  if (!stored) return;
  ReadTarget& target = *asked.target;
  const auto in_file = placed_in_file(manifest_.tensors[asked.index], manifest_.grid, part.at, stored->range,
                                      stored->arena_offset.value_or(0));
  const auto copies = intersect(in_file, target.placed), sent = intersect(in_file, asked.of_group);
  if (copies.empty() && sent.empty()) return;
  if (!begins) begins.emplace(directory_, manifest_, part);
  const int64_t begin = begins->of(asked.index, in_file.back().offset + in_file.back().size);
  const auto element = static_cast<int64_t>(target.host.element_size());
  auto* const into = static_cast<std::byte*>(target.host.mutable_data_ptr());
  for (const PartCopy& copy : copies) {
    read.wanted.push_back({begin + copy.from * element, copy.size * element, into + copy.to * element});
    target.missing -= copy.size;
  }
  for (const PartCopy& copy : sent)
    read.sent.push_back({begin + copy.from * element, begin + (copy.from + copy.size) * element});
}

void Delivery::take(const FilePiece& piece) {
  const int64_t begin = piece.place, end = begin + std::ssize(piece.bytes);
  for (size_t i = next_; i < wanted_.size() && wanted_[i].begin < end; ++i) {
    const WantedBytes& part = wanted_[i];
    const int64_t first = std::max(begin, part.begin), last = std::min(end, part.begin + part.size);
    if (first < last)
      std::memcpy(part.into + (first - part.begin), piece.bytes.data() + (first - begin),
                  static_cast<size_t>(last - first));
    if (i == next_ && part.begin + part.size <= end) ++next_;
  }
}

}  // namespace axonn
